"""The authorizer's decisions, compared with those of a naive one."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.metadata.acls import (
    EVERY_USER,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Acls,
)
from purgatory_broker.metadata.authorizer import Authorizer, Requester
from tests.support.profiles import examples

ALICE, BOB = "User:alice", "User:bob"
HERE, THERE = "127.0.0.1", "10.0.0.1"
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
T = TypeVar("T")

names = st.sampled_from(["a", "ab", "abc", "b"])
principals = st.sampled_from([ALICE, ALICE, BOB, EVERY_USER])
hosts = st.sampled_from([HERE, THERE, WILDCARD, WILDCARD])
resources = st.sampled_from([AclResource.TOPIC, AclResource.GROUP])
operations = st.sampled_from(
    [
        *(AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE),
        *(AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS),
    ]
)
acls = st.builds(
    Acl,
    resources,
    names | st.just(WILDCARD),
    st.sampled_from([AclPattern.LITERAL, AclPattern.PREFIXED]),
    principals,
    hosts,
    operations,
    st.sampled_from([ALLOW, DENY]),
)


class Question(NamedTuple):
    requester: Requester
    operation: AclOperation
    resource: AclResource
    name: str


questions = st.builds(
    Question,
    st.builds(Requester, st.sampled_from([ALICE, BOB]), st.sampled_from([HERE, THERE])),
    operations.filter(lambda each: each is not AclOperation.ALL),
    resources,
    names,
)


def often(value: T, others: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    return st.one_of(st.just(value), st.just(value), others)


def asked_and_stored(question: Question) -> st.SearchStrategy[tuple[Question, list[Acl]]]:
    """Return a question with ACLs that often apply to it, and so overrule one another."""
    applying = st.builds(
        Acl,
        often(question.resource, resources),
        often(question.name, names | st.just(WILDCARD)),
        st.sampled_from([AclPattern.LITERAL, AclPattern.PREFIXED]),
        often(question.requester.principal, principals),
        often(question.requester.host, hosts),
        often(question.operation, operations),
        st.sampled_from([ALLOW, DENY]),
    )
    return st.tuples(st.just(question), st.lists(applying, max_size=6))


situations = questions.flatmap(asked_and_stored)


def naive(stored: list[Acl], question: Question, *, without_acls: bool) -> bool:
    """Say from the words of Kafka's documentation whether an operation is allowed."""
    applying = [
        acl
        for acl in stored
        if acl.resource == question.resource
        and (
            question.name.startswith(acl.name)
            if acl.pattern is AclPattern.PREFIXED
            else acl.name in (question.name, "*")
        )
    ]
    if not applying:
        return without_acls
    own = [
        acl
        for acl in applying
        if acl.principal in (question.requester.principal, "User:*")
        and acl.host in (question.requester.host, "*")
    ]
    allowing = {question.operation.name, "ALL"}
    if question.operation is AclOperation.DESCRIBE:
        allowing |= {"READ", "WRITE", "DELETE", "ALTER"}
    if question.operation is AclOperation.DESCRIBE_CONFIGS:
        allowing |= {"ALTER_CONFIGS"}
    denied = any(
        acl.permission is DENY and acl.operation.name in (question.operation.name, "ALL")
        for acl in own
    )
    return not denied and any(
        acl.permission is ALLOW and acl.operation.name in allowing for acl in own
    )


def authorizer(stored: list[Acl], *super_users: str, without_acls: bool = False) -> Authorizer:
    indexed = Acls(stored)
    return Authorizer(lambda: indexed, frozenset(super_users), without_acls)


@given(situations, st.booleans())
def test_decisions_are_those_of_a_naive_authorizer(
    situation: tuple[Question, list[Acl]], without_acls: bool
) -> None:
    question, stored = situation
    decided = authorizer(stored, without_acls=without_acls).allows(*question)
    assert decided == naive(stored, question, without_acls=without_acls)


def test_denial_of_an_operation_denies_what_it_implies_not() -> None:
    literal, name = AclPattern.LITERAL, "orders"
    alice = Requester(ALICE, HERE)
    stored = [
        acl(name, literal, ALLOW),
        acl(name, literal, DENY)._replace(operation=AclOperation.READ),
    ]
    decisions = authorizer(stored)
    assert decisions.allows(alice, AclOperation.DESCRIBE, AclResource.TOPIC, name)
    assert not decisions.allows(alice, AclOperation.READ, AclResource.TOPIC, name)


@examples(20)
@given(situations)
def test_super_user_may_do_everything(situation: tuple[Question, list[Acl]]) -> None:
    question, stored = situation
    assert authorizer(stored, question.requester.principal).allows(*question)


@given(situations)
def test_some_resource_is_found_where_nothing_is_denied(
    situation: tuple[Question, list[Acl]],
) -> None:
    question, stored = situation
    allowing = [acl._replace(permission=ALLOW) for acl in stored]
    asked = [AclOperation.ALL, question.operation]
    # Implied operations do not count.
    explicit = [acl for acl in allowing if acl.operation in asked]
    expected = any(
        naive(explicit, question._replace(name=acl.name), without_acls=False) for acl in explicit
    )
    requester, operation, resource, _ = question
    if operation not in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        assert authorizer(allowing).allows_some(requester, operation, resource) == expected


def acl(name: str, pattern: AclPattern, permission: AclPermission) -> Acl:
    return Acl(AclResource.TOPIC, name, pattern, ALICE, WILDCARD, AclOperation.WRITE, permission)


def some_write(*stored: Acl) -> bool:
    asked = (Requester(ALICE, HERE), AclOperation.WRITE, AclResource.TOPIC)
    return authorizer(list(stored)).allows_some(*asked)


def test_allowed_topic_that_is_denied_is_not_some_topic() -> None:
    literal, prefixed = AclPattern.LITERAL, AclPattern.PREFIXED
    assert not some_write()
    assert some_write(acl("ab", literal, ALLOW))
    assert not some_write(acl("ab", literal, ALLOW), acl("ab", literal, DENY))
    assert not some_write(acl("ab", literal, ALLOW), acl("a", prefixed, DENY))
    assert some_write(acl("ab", prefixed, ALLOW), acl("ab", literal, DENY))
    assert not some_write(acl("ab", prefixed, ALLOW), acl("a", prefixed, DENY))
    assert some_write(acl("a", prefixed, ALLOW), acl("ab", prefixed, DENY))
    assert some_write(acl("*", literal, ALLOW), acl("a", prefixed, DENY))
    assert not some_write(acl("ab", literal, ALLOW), acl("*", literal, DENY))


filters = st.builds(
    AclFilter,
    resources | st.just(AclResource.ANY),
    st.none() | names | st.just(WILDCARD),
    st.sampled_from([each for each in AclPattern if each]),
    st.none() | principals,
    st.none() | hosts,
    operations | st.just(AclOperation.ANY),
    st.sampled_from([each for each in AclPermission if each]),
)


@given(acls, filters)
def test_filter_selects_what_its_fields_name(stored: Acl, wanted: AclFilter) -> None:
    def selects(field: str) -> bool:
        value = getattr(wanted, field)
        return value is None or value.name == "ANY" or value == getattr(stored, field)

    is_selected = all(map(selects, ("resource", "operation", "permission"))) and all(
        getattr(wanted, field) in (None, getattr(stored, field)) for field in ("principal", "host")
    )
    if wanted.pattern in (AclPattern.LITERAL, AclPattern.PREFIXED):
        is_selected &= wanted.pattern is stored.pattern
    if wanted.name is not None and wanted.pattern is AclPattern.MATCH:
        is_selected &= stored in Acls([stored]).of(stored.resource, wanted.name) or (
            wanted.name == stored.name
        )
    elif wanted.name is not None:
        is_selected &= wanted.name == stored.name
    assert wanted.matches(stored) == is_selected
