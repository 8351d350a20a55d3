"""Logs as gateways and load generators write them, with requests that were given up."""

from __future__ import annotations

import gzip
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.likely_columns import likely_options
from purgatory_spark._importers.log_formats import log_columns
from purgatory_spark._traces.trace_reader import ImportSettings, check_source
from tests.spark.trace_folders import NOON, imported_rows, write_lines

NGINX_FORMAT = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent" $request_time $upstream_response_time $upstream_addr'
)
#: Two tries of servers, a 504 at nginx's timeout, a client that left, an escaped quote, TLS sent to
#: a port without it, and a line of another log.
NGINX = r"""
203.0.113.7 - - [22/Aug/2022:12:00:02 +0000] "GET /o?id=7 HTTP/1.1" 200 612 "-" "curl/8.5.0" 0.283 0.100, 0.183 10.0.0.5:80, 10.0.0.6:80
203.0.113.8 - bob [22/Aug/2022:14:00:04 +0200] "GET /o HTTP/1.1" 504 167 "-" "Mozilla/5.0 (\x22a\x22)" 2.001 2.001 10.0.0.6:80
203.0.113.9 - - [22/Aug/2022:12:00:04 +0000] "POST /o HTTP/2.0" 499 0 "https://x/" "okhttp/4.9" 0.512 - 10.0.0.5:80
203.0.113.1 - - [22/Aug/2022:12:00:05 +0000] "\x16\x03\x01\x02" 400 157 "-" "-" 0.000 - -
2022/08/22 12:00:05 [error] 31#31: *9 upstream timed out (110: Connection timed out)
""".strip().splitlines()  # fmt: skip  # noqa: E501

NGINX_JSON = [
    '{"msec":"1661169602.283","status":"200","request_time":"0.283","addr":"10.0.0.5:80"}',
    '{"msec":"1661169604.001","status":"504","request_time":"2.001","addr":"10.0.0.6:80"}',
]

ENVOY = """
[2022-08-22T12:00:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c" "locations" "10.0.2.1:80"
[2022-08-22T12:00:00.320Z] "GET / HTTP/1.1" 504 UT 0 24 2000 - "-" "curl/8.5.0" "cc21d9b0-cf5d" "locations" "10.0.2.2:80"
[2022-08-22T12:00:00.330Z] "GET / HTTP/1.1" 0 DC 0 0 431 - "-" "-" "cc21d9b0-cf5e" "locations" "10.0.2.1:80"
[2022-08-22T12:00:00.340Z] "- - HTTP/1.1" 503 UF,URX 0 91 31 - "-" "-" "cc21d9b0-cf5f" "locations" "-"
""".strip().splitlines()  # fmt: skip  # noqa: E501
ENVOY_JSON = [
    '{"start_time":"2022-08-22T12:00:00.310Z","response_code":204,"duration":226,"pod":"a"}',
    '{"start_time":"2022-08-22T12:00:00.320Z","response_code":504,"duration":2000,"pod":"b"}',
]

_ALB = (
    "h2 {end} app/my-loadbalancer/50dc6c495c0c9188 10.0.1.252:48160 {target} {times} {status} "
    '{own} 5 257 "GET https://10.0.2.105:773/ HTTP/2.0" "curl/7.46.0" '
    "ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 "
    "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "
    '"Root=1-58337327-72bd00b0343d75b906739c42" "-" "-" 1 {start} "redirect" '
    '"https://example.com:80/" "-" "10.0.0.66:9000" "200" "-" "-" TID_dc57cebed65b'
)
ALB = [
    _ALB.format(start="2022-08-22T12:00:00.000000Z", end="2022-08-22T12:00:00.283125Z",
                target="10.0.0.66:9000", times="0.000 0.281 0.002", status=200, own=200),
    _ALB.format(start="2022-08-22T12:00:00.100000Z", end="2022-08-22T12:01:00.101000Z",
                target="10.0.0.67:9000", times="0.001 -1 -1", status=504, own="-"),
    _ALB.format(start="2022-08-22T12:00:00.200000Z", end="2022-08-22T12:00:00.700000Z",
                target="-", times="-1 -1 -1", status=460, own="-"),
]  # fmt: skip

K6 = [
    "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,"
    "proto,scenario,service,status,subproto,tls_version,url,extra_tags,metadata",
    "http_reqs,1661169602,1.000000,,,,true,,GET,https://x/,HTTP/1.1,default,,200,,tls1.3,x,,",
    "http_req_duration,1661169602,283.125,,,,true,,GET,https://x/,HTTP/1.1,default,,200,,,x,,",
    "http_req_duration,1661169662,60000.5,,request timeout,1050,false,,GET,x,,default,,0,,,x,,",
    "vus,1661169662,1.000000,,,,,,,,,,,,,,,,",
]
LOCUST = [
    "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,"
    "Min Response Time,Max Response Time,Average Content Size,Requests/s,Failures/s,50%,66%",
    "GET,/,1200,3,12,14.2,3,2002,512,20.0,0.05,12,15",
]
#: A listener of Locust's event `request`, as its documentation shows it.
LOCUST_REQUESTS = [
    "start_time,request_type,name,response_time,response_length,exception",
    "1661169600.25,GET,/,283.125,512,",
    "1661169600.5,GET,/,2000.4,0,timed out",
]

MAPPED: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "nginx-json": (
        "access.json",
        NGINX_JSON,
        {"columns": {"ended_at": "msec", "service_s": "request_time", "host": "addr"},
         "time_unit": "s", "status": "status", "unanswered": ("504", "499")},
    ),
    "envoy-json": (
        "envoy.jsonl",
        ENVOY_JSON,
        {"columns": {"arrived_at": "start_time", "service_ms": "duration", "host": "pod"},
         "status": "response_code", "unanswered": ("504", "0")},
    ),
    "k6": (
        "k6.csv",
        K6,
        {"columns": {"ended_at": "timestamp", "service_ms": "metric_value"}, "time_unit": "s",
         "where": "metric_name = 'http_req_duration'", "status": "status", "unanswered": ("0",)},
    ),
    "locust": (
        "requests.csv",
        LOCUST_REQUESTS,
        {"columns": {"arrived_at": "start_time", "service_ms": "response_time"}, "time_unit": "s",
         "status": "exception", "unanswered": ("timed out",)},
    ),
}  # fmt: skip


def requests_of(
    spark: SparkSession, file: Path, **settings: Any
) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """Return arrival and timeout in ms, host, and ms to the answer, of each request in order."""
    found = imported_rows(spark, file, **settings)
    ends = {(row["host"], row["key"]): row["occurred_at"] for row in found.events}
    ms = timedelta(milliseconds=1)
    rows = []
    for row in sorted(found.requests, key=lambda row: row["arrived_at"]):
        end = ends.get((row["host"], row["watch_keys"][0]))
        answer = None if end is None else (end - row["arrived_at"]) / ms
        rows.append(((row["arrived_at"] - NOON) / ms, row["timeout_ms"], row["host"], answer))
    return rows, found.rejected


def test_log_of_nginx_is_read_by_its_format(spark: SparkSession, tmp_path: Path) -> None:
    # nginx takes request lines of 8 KiB, and more if it is told so.
    long = "/o?id=" + "7" * 30_000
    log = write_lines(tmp_path / "access.log", [line.replace("/o?id=7", long) for line in NGINX])
    settings = ImportSettings(log_format=NGINX_FORMAT)
    assert (settings.status, settings.unanswered) == ("status", ("504", "499"))
    assert requests_of(spark, log, log_format=NGINX_FORMAT, timeout_ms=3000) == (
        [
            (1717, 3000, "10.0.0.5:80, 10.0.0.6:80", 283),
            (1999, 2001, "10.0.0.6:80", None),
            (3488, 512, "10.0.0.5:80", None),
            (5000, 3000, "-", 0),
        ],
        {"malformed row": 1},
    )


def test_log_of_envoy_is_read_by_its_default_format(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    write_lines(tmp_path / "logs" / "access.log.1", ENVOY)
    rows, rejected = requests_of(
        spark,
        tmp_path / "logs",
        log_format="envoy",
        timeout_ms=3000,
        where="RESPONSE_CODE != 503",
    )
    assert rows == [
        (310, 3000, "10.0.2.1:80", 226),
        (320, 2000, "10.0.2.2:80", None),
        (330, 431, "10.0.2.1:80", None),
    ]
    assert rejected == {}


def test_log_of_aws_has_arrivals_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "123456789012_elasticloadbalancing_us-east-2_app.my.log.gz"
    log.write_bytes(gzip.compress("\n".join(ALB).encode()))
    rows, rejected = requests_of(spark, log, log_format="alb")
    assert rows == [
        (0, 1000, "10.0.0.66:9000", 283.125),
        (100, 60001, "10.0.0.67:9000", None),
        (200, 500, "-", None),
    ]
    assert rejected == {}


@pytest.mark.parametrize("name", MAPPED)
def test_log_with_columns_is_mapped(spark: SparkSession, tmp_path: Path, name: str) -> None:
    file, lines, settings = MAPPED[name]
    log = write_lines(tmp_path / file, lines)
    rows, rejected = requests_of(spark, log, timeout_ms=90_000, **settings)
    expected = {
        "nginx-json": [(2000, "10.0.0.5:80", 283), (2000, "10.0.0.6:80", 2001)],
        "envoy-json": [(310, "a", 226), (320, "b", 2000)],
        "k6": [(1716.875, "host-0", 283.125), (1999.5, "host-0", 60000)],
        "locust": [(250, "host-0", 283.125), (500, "host-0", 2000)],
    }[name]
    (first, first_host, took), (second, second_host, gave_up) = expected
    assert rows == [(first, 90_000, first_host, took), (second, gave_up, second_host, None)]
    assert rejected == {}


def test_duration_that_is_not_known_is_no_reject_of_a_request_given_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = ["at,took,code", "0,,504", "1,-1,504", "2,-,504", "3,-1,200", "4,x,200", "5,1,504.0"]
    log = write_lines(tmp_path / "log.csv", lines)
    found = imported_rows(
        spark,
        log,
        columns={"arrived_at": "at", "service_ms": "took"},
        time_unit="s",
        timeout_ms=700,
        status="code",
        unanswered=("504",),
    )
    assert [row["timeout_ms"] for row in found.requests] == [700, 700, 700, 700]
    assert found.rejected == {"end before start": 1, "unparsable took": 1}
    assert [row["key"] for row in found.events] == ["000000000004"]
    assert found.notes == [
        "A request waits for its own answer. One that was given up without an answer (code 504) "
        "expires at that time. Others, and those without a duration, have a timeout of 700 ms "
        "(--timeout-ms)."
    ]


def test_statistics_of_locust_are_refused(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "load_stats.csv", LOCUST)
    with pytest.raises(TraceFormatError, match="Locust's statistics, which have no row for each"):
        check_source(log, ImportSettings())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"log_format": "combined"}, "log format 'combined' has no variables, such as"),
        ({"log_format": "$a$b"}, r"nothing between \$a and \$b"),
        ({"log_format": "$a $b $a"}, "the variable 'a' more than once"),
        ({"log_format": "$time_local $status"}, "the mapping lacks arrived_at=COLUMN"),
        (
            {"log_format": "envoy", "columns": {"arrived_at": "when", "service_ms": "DURATION"}},
            "the log format: missing columns: when; the format has START_TIME",
        ),
        ({"log_format": "envoy", "format": "spans"}, "the format spans takes no --"),
    ],
)
def test_unusable_log_format_is_an_error(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    log = write_lines(tmp_path / "access.log", ENVOY)
    with pytest.raises(TraceFormatError, match=message):
        check_source(log, ImportSettings(**settings))


def test_unusable_condition_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    log = write_lines(tmp_path / "access.log", ENVOY)
    for where, message in (("RESPONSE_CODE = (", "PARSE_SYNTAX_ERROR"), ("code = 1", "UNRESOLVED")):
        with pytest.raises(TraceFormatError, match=f"access.log: the condition .*{message}"):
            imported_rows(spark, log, log_format="envoy", where=where)


def test_variables_of_formats_are_columns() -> None:
    assert log_columns(NGINX_FORMAT)[2:4] == ["time_local", "request"]
    assert log_columns("[%START_TIME(%Y/%m)%] %REQ(:PATH):20% %DURATION%") == [
        "START_TIME(%Y/%m)",
        "REQ(:PATH)",
        "DURATION",
    ]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (
            {
                "request_id": "17",
                "pod": "a",
                "start": "1661169600000",
                "took": "3.5",
                "code": "200",
            },
            "--map arrived_at=start --map service_ms=took --map host=pod --time-unit ms "
            "--status code --unanswered 504,499",
        ),
        (
            {"msec": "1661169602.283", "request_time": "0.2", "status": "200"},
            "--map ended_at=msec --map service_s=request_time --time-unit s --status status "
            "--unanswered 504,499",
        ),
        (
            {"begin": "2022-08-22T12:00:00Z", "end": "2022-08-22T12:00:01Z", "latency": "x"},
            "--map arrived_at=begin --map ended_at=end",
        ),
        (
            {"Time": "2022-08-22 12:00", "Response Time (s)": "2", "Server": "x"},
            "--map arrived_at=Time --map 'service_s=Response Time (s)' --map host=Server",
        ),
        ({"when": None, "what": None}, "--map arrived_at=when --map service_ms=..."),
        ({"a": 1}, "--map arrived_at=... --map service_ms=..."),
    ],
)
def test_likely_columns_are_proposed(values: dict[str, object], options: str) -> None:
    assert likely_options(values) == options
