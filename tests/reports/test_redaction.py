"""What must not reach a report does not reach the record."""

import types
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from reports import record
from reports.record import REDACTED, Record, Scenario, clean, clean_all
from tests.reports import sample

SECRET = "s3cr3t-V4lue"
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLXNpZ25hdHVyZQ"
PEM = f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\nMHcCAQEE\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        f"token: {SECRET}",
        f"  token: '{SECRET} and more {SECRET}'",
        f'{{"token":"{SECRET}","x":1}}',
        f'{{"a": {{"bearerToken": "one \\" {SECRET}"}}}}',
        f'"{{\\"password\\": \\"{SECRET}\\"}}"',
        f"password={SECRET}",
        f"--service-account-token={SECRET} --v=2",
        f"API_KEY={SECRET}",
        f"clientSecret: {SECRET}",
        f"client-key-data: {SECRET}",
        f"users:\n- token: |\n    {SECRET}\n    {SECRET}\n  name: x",
        f"Authorization: Bearer {SECRET}{SECRET}",
        f'"Authorization": ["Bearer {SECRET}{SECRET}"]',
        f"authorization: Basic {SECRET}",
        f"https://admin:{SECRET}@127.0.0.1:6443/api",
        PEM,
        PEM.replace("\n", "\\n"),
        PEM[:40] + SECRET,
        f"password: ab({SECRET}",
    ],
)
def test_secrets_are_removed(text: str) -> None:
    assert SECRET not in clean(text)
    assert REDACTED in clean(text)
    assert clean(clean(text)) == clean(text)


def test_tokens_are_known_by_their_shape() -> None:
    assert clean(f"user sent {JWT}, refused") == f"user sent {REDACTED}, refused"


@pytest.mark.parametrize(
    "text",
    [
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "serviceAccountToken: {expirationSeconds: 3607}",
        "token:\n  expirationSeconds: 3607",
        "tokenFile: scheduler.token",
        "max_tokens: 5",
        'profiles:\n- schedulerName: gpu-packing\n  values: ["true"]',
        "a tab\tand a\nnewline",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert clean(text) == text


def test_structures_are_searched() -> None:
    data = {
        "argv": ["run", "--token", SECRET, "--v", "2"],
        "nested": {"password": SECRET, "name": "x"},
        "token": {"ttl": 1},
    }
    assert clean_all(data) == {
        "argv": ["run", "--token", REDACTED, "--v", "2"],
        "nested": {"password": REDACTED, "name": "x"},
        "token": {"ttl": 1},
    }


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text_becomes_writable_and_stays_as_cleaned(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert cleaned.encode().decode() == cleaned
    assert not any(ord(sign) < 32 and sign not in "\n\t" for sign in cleaned)
    assert not set(cleaned) & set("\x7f\x9b\u202e\u2066")
    assert Scenario(name="x", message=text).message == cleaned


def test_no_text_enters_a_record_unclean() -> None:
    """Every text of every model is cleaned: a plain `str` would not be."""
    models = [one for one in vars(record).values() if isinstance(one, type) and issubclass(one, BaseModel)]
    assert len(models) > 10
    for model in models:
        for name, field in model.model_fields.items():
            plain = str in _types(field.annotation)
            cleaned = any(getattr(one, "func", None) is clean_all for one in field.metadata)
            assert not plain or cleaned, f"{model.__name__}.{name}"


def _types(annotation: Any) -> set[Any]:
    found = {annotation}
    for part in get_args(annotation):
        if not isinstance(annotation, types.GenericAlias) or annotation.__origin__ is not dict or part is not str:
            found |= _types(part)
    return found


def test_a_record_is_clean_throughout() -> None:
    said = f"token: {SECRET}"
    dirty = sample.blank(
        configuration=PEM,
        command=["make", f"TOKEN={SECRET}"],
        notes=[said],
        errors=[said],
        claims={"x": {"password": SECRET}},
    )
    assert SECRET not in dirty.model_dump_json()
    assert Record.model_validate_json(dirty.model_dump_json()) == dirty
