"use strict";
// Tables are sorted by a click on a heading, and copied or downloaded as CSV. Without this script
// they are plain tables. `data-value` has the value that a cell's text shows in some unit.

function valueOf(row, column) {
  return row.cells[column].dataset.value;
}

function compare(one, other) {
  const numbers = [Number(one), Number(other)];
  return numbers.some(Number.isNaN)
    ? one.localeCompare(other, undefined, { numeric: true })
    : numbers[0] - numbers[1];
}

function sortBy(table, column) {
  const headings = table.tHead.rows[0].cells;
  const ascending = headings[column].ariaSort !== "ascending";
  for (const heading of headings) heading.ariaSort = "none";
  headings[column].ariaSort = ascending ? "ascending" : "descending";
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((one, other) => {
    const [first, second] = [valueOf(one, column), valueOf(other, column)];
    // Missing values are last in both directions.
    if (!first || !second) return (first ? 0 : 1) - (second ? 0 : 1);
    return ascending ? compare(first, second) : compare(second, first);
  });
  body.append(...rows);
}

function quoted(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvOf(table) {
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.csv);
  const rows = [...table.tBodies[0].rows].map((row) =>
    [...row.cells].map((cell) => cell.dataset.value));
  return [headings, ...rows].map((cells) => cells.map(quoted).join(",") + "\r\n").join("");
}

// Pages that are opened as files have no clipboard in some browsers.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

function download(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = `${name.replace(/[^\w.-]+/g, "_")}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

function button(label, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", action);
  return made;
}

for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table");
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    heading.ariaSort = "none";
    heading.replaceChildren(button(heading.textContent, () => sortBy(table, column)));
  });
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.append(
    said,
    button("Copy as CSV", async () => {
      const text = csvOf(table);
      const copied = await copy(text);
      said.textContent = copied ? "copied" : "can't copy here: downloaded";
      if (!copied) download(text, box.dataset.name);
    }),
    button("Download CSV", () => download(csvOf(table), box.dataset.name)),
  );
  box.prepend(tools);
}
