"""Canonical bytes, digests and Merkle roots."""

import hashlib
from decimal import Decimal

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from evalkit.canonical import canonical_bytes, canonical_form, digest, leaf_hash, plain_decimal, tree_root

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_canonical_bytes_are_those_of_rfc_8785(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


def test_keys_are_sorted_by_utf16_as_rfc_8785_says() -> None:
    """The example of RFC 8785 §3.2.3."""
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(rfc8785.dumps(value)) == list(canonical_bytes(value))
    order = [canonical_bytes(value).decode().index(f":{i}") for i in (2, 4, 6, 7, 1, 5, 3)]
    assert order == sorted(order)


@pytest.mark.parametrize("text", ["0.70", "0.7", "7e-1", "70E-2", "0.7000"])
def test_spellings_of_a_number_are_one_value(text: str) -> None:
    assert canonical_bytes(Decimal(text)) == b'"0.7"'


@pytest.mark.parametrize(
    ("text", "plain"), [("1.0", 1), ("1e2", 100), ("-0", 0), ("-0.0", 0), ("0.10", "0.1"), ("-1.50", "-1.5")]
)
def test_whole_numbers_are_numbers_and_others_plain_text(text: str, plain: object) -> None:
    assert plain_decimal(Decimal(text)) == plain


def test_decimals_that_differ_beyond_28_digits_stay_different() -> None:
    assert canonical_bytes(Decimal("0." + "1" * 39)) != canonical_bytes(Decimal("0." + "1" * 40))


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_a_decimals_text_is_its_value(value: Decimal) -> None:
    assert Decimal(plain_decimal(value)) == value


@pytest.mark.parametrize("value", [0.5, b"x", {1.5}, object()])
def test_what_json_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="has no canonical form"):
        canonical_form(value)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_a_number_that_is_not_finite_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        canonical_bytes(Decimal(text))


def test_integers_beyond_doubles_are_text() -> None:
    assert canonical_bytes([2**53 - 1, 2**53]) == b'[9007199254740991,"9007199254740992"]'


def test_a_digest_is_sha256_over_domain_zero_byte_and_content() -> None:
    assert digest("x", {"a": 1}) == "ek1:sha256:" + hashlib.sha256(b'evalkit/x\x00{"a":1}').hexdigest()
    assert digest("x", 1) != digest("y", 1)


RFC6962 = [
    b"", b"\x00", b"\x10", b"\x20\x21", b"\x30\x31", b"\x40\x41\x42\x43", b"\x50\x51\x52\x53\x54\x55\x56\x57",
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
]  # fmt: skip


@pytest.mark.parametrize(
    ("n", "root"),
    [
        (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
        (2, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
        (3, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
        (7, "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
        (8, "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
    ],
)
def test_roots_are_those_of_the_certificate_transparency_test_vectors(n: int, root: str) -> None:
    """Inputs and roots of google/certificate-transparency, merkle tree tests."""
    assert tree_root([leaf_hash(data) for data in RFC6962[:n]]).hex() == root
