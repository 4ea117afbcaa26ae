"""Placeholders come from a closed list, are expanded once, and leave everything else alone."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.placeholders import IN_PROCESS, UnknownPlaceholder, check, expand, expand_all, names

KNOWN: dict[str, str | int] = {"kubeconfig": "/k", "port:web": 8080, "nested": "$(kubeconfig)", "escape": "$$("}

# Text in which anything may look like a placeholder, and real ones.
PIECES = st.lists(
    st.sampled_from(["$", "$$", "(", ")", "$$(", "$$(kubeconfig)", "a", " ", "{", "`"])
    | st.sampled_from([f"$({name})" for name in KNOWN]),
    max_size=12,
)


@given(PIECES)
def test_expansion_replaces_every_placeholder_and_no_escaped_one(pieces: list[str]) -> None:
    template = "".join(pieces)
    found = list(names(template))
    if not all(name in KNOWN for name in found):
        with pytest.raises(UnknownPlaceholder):
            expand(template, lambda name: KNOWN[name])
        return

    marked = expand(template, lambda name: f"<{name}>")

    assert Counter(re.findall(r"<([^>]*)>", marked)) == Counter(found)
    # What is left of `$(` was written as `$$(`; written so again, the whole is the template.
    assert re.sub(r"<([^>]*)>", r"$(\1)", marked.replace("$(", "$$(")) == template


@given(st.text().filter(lambda text: "$(" not in text))
def test_text_without_placeholders_stays_as_it_is(text: str) -> None:
    assert expand(text, lambda name: KNOWN[name]) == text
    assert list(check(text, IN_PROCESS)) == []


def test_values_are_never_expanded_again() -> None:
    assert expand("$(nested) $(escape)x", lambda name: KNOWN[name]) == "$(kubeconfig) $$(x"


@pytest.mark.parametrize(
    ("template", "expanded"),
    [
        ("--kubeconfig=$(kubeconfig)", "--kubeconfig=/k"),
        ("$$(kubeconfig)", "$(kubeconfig)"),
        ("$$$(kubeconfig)", "$$(kubeconfig)"),
        ("$HOME ${HOME} `id` $$ $", "$HOME ${HOME} `id` $$ $"),
        ("a$(port:web)b$(port:web)", "a8080b8080"),
    ],
)
def test_expansion(template: str, expanded: str) -> None:
    assert expand(template, lambda name: KNOWN[name]) == expanded


@pytest.mark.parametrize(
    "bad", ["$(", "$()", "$(kubeconfig", "$(port:)", "$(port)", "$(kubeconfig:x)", "$(a\nb)", "$($(kubeconfig))"]
)
def test_what_is_not_on_the_list_is_refused(bad: str) -> None:
    (error, *_) = check(bad, IN_PROCESS)

    assert "`$(" in error.wrong
    assert "$$(" in error.remedy


def test_numbers_stay_numbers_except_where_kubernetes_wants_text() -> None:
    data = {
        "spec": {"min": "$(port:web)", "text": "$(port:web)s", "kept": 3, "list": ["$(port:web)"]},
        "metadata": {"labels": {"min": "$(port:web)"}, "annotations": {"min": "$(port:web)"}},
    }

    assert expand_all(data, lambda name: KNOWN[name]) == {
        "spec": {"min": 8080, "text": "8080s", "kept": 3, "list": [8080]},
        "metadata": {"labels": {"min": "8080"}, "annotations": {"min": "8080"}},
    }
