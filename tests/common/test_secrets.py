"""What nobody is shown of the options."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from beadline.common.secrets import HIDDEN, masked, masked_arguments, without_passwords
from tests.nightly import NIGHTLY


@pytest.mark.parametrize(
    "key",
    [
        "beadline.rest.token",
        "s3.secret-key",
        "s3.access-key",
        "security.ssl.key-password",
        "properties.sasl.jaas.config",
        "my.apiKey",
        "schema.registry.basic.auth.user.info",
    ],
)
def test_options_whose_key_says_so(key: str) -> None:
    assert masked({key: "hunter2"}) == {key: HIDDEN}


def test_passwords_in_urls() -> None:
    shown = masked({"db.url": "postgresql://me:hunter2@host/db", "other": "jdbc:x://host/db?user=me&password=hunter2"})
    assert shown == {
        "db.url": f"postgresql://me:{HIDDEN}@host/db",
        "other": f"jdbc:x://host/db?user=me&password={HIDDEN}",
    }


def test_entries_of_the_program_s_own_parameters() -> None:
    shown = masked({"pipeline.global-job-parameters": "{rate: 3, db-password: 'hunter2'}"})
    assert shown == {"pipeline.global-job-parameters": f"{{rate: 3, db-password: {HIDDEN}}}"}


def test_the_rest_stays() -> None:
    options = {"parallelism.default": "4", "pipeline.name": "token counts", "execution.checkpointing.dir": "file:///a"}
    assert masked(options) == options


# -- names


@pytest.mark.parametrize(
    "key",
    [
        "my.api_key",
        "my.apikey",
        "fs.s3a.access.key",
        "fs.s3a.secret.key",
        "access_key",
        "private_key",
        "ssl.private.key",
        "kafka.ssl.key.pem",
        "ssl.keystore.key",
        "spark.hadoop.fs.azure.sas.container.account",
        "fs.azure.account.key.x.dfs.core.windows.net",
        "pwd",
        "google.credentials",
    ],
)
def test_names_of_secrets_however_they_are_joined(key: str) -> None:
    assert masked({key: "hunter2"}) == {key: HIDDEN}
    assert without_passwords(f"{key}=hunter2, x") == f"{key}={HIDDEN}, x"
    assert masked_arguments([f"--{key}=hunter2", f"--{key}", "hunter2", "x"]) == (
        f"--{key}={HIDDEN}",
        f"--{key}",
        HIDDEN,
        "x",
    )


@pytest.mark.parametrize(
    "text",
    [
        "key_by=user, primary key: id, foreign-key=3, keyspace=clicks",
        "window key: ('ann', 7), partition.key=17, keys: 512",
        "sasl.mechanism=PLAIN sasl.username=ann",
        "total tokens: 512, tokens=7; token_count=3, tokenizer=words",
        "beadline.rest.token: none, beadline.rest.read-token=true",
        "credentials: none were found. at server-key.pem: no such file",
        'password authentication failed for user "ann"',
        "ssl.keystore.location=/etc/keys/store.jks",
        "design=blue, signal=on, assign=a, pwdump=x",
        "hdfs://name-node:8020/data/me@work/part-1, s3://bucket/a@b",
        "http://localhost:8081/subjects/me@example.com?to=you@example.com",
        "abfss://container@account.dfs.core.windows.net/path",
        '{"url":"http://registry:8081","mail":"me@example.com"}',
        "send 'Authorization: Bearer <token>'",
        "ValueError: bad value 12:30:45 at position 7; see https://example.com/a:b",
        "-----BEGIN CERTIFICATE-----MIIB-----END CERTIFICATE-----",
    ],
)
def test_harmless_texts_stay(text: str) -> None:
    assert without_passwords(text) == text


def test_options_that_only_sound_like_secrets() -> None:
    options = {"beadline.rest.token": "none", "beadline.rest.read-token": "true", "sasl.mechanism": "PLAIN"}
    assert masked(options) == options


# -- texts with a password in them: whatever it is, nothing of it may be left

ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), min_size=1, max_size=30).filter(
    lambda text: text.lower() not in ("none", "null", "true", "false")
)
ONE_WORD = ANY.map(lambda text: re.sub(r"[\s\x00-\x20<>]", "", text)).filter(bool)
NAMES = st.sampled_from(["password", "db.password", "api_key", "--access-key", "aws_secret_access_key", "ssl.key.pem"])


@settings(max_examples=10_000 if NIGHTLY else 300)
@given(NAMES, ANY, st.sampled_from(["'", '"']), st.booleans())
def test_passwords_in_quotes(name: str, password: str, quote: str, doubled: bool) -> None:
    if doubled:  # as in the settings of a database's driver, where a backslash is escaped too
        inner = password.replace("\\", "\\\\").replace(quote, quote * 2)
    else:
        inner = password.replace("\\", "\\\\").replace(quote, "\\" + quote)
    assert without_passwords(f"host=h {name}={quote}{inner}{quote} user=ann") == f"host=h {name}={HIDDEN} user=ann"


@settings(max_examples=10_000 if NIGHTLY else 300)
@given(ANY)
def test_passwords_in_json_and_python(password: str) -> None:
    data = {"user": "ann", "password": password, "port": 1}
    assert without_passwords(json.dumps(data)) == f'{{"user": "ann", "password": {HIDDEN}, "port": 1}}'
    assert without_passwords(str(data)) == f"{{'user': 'ann', 'password': {HIDDEN}, 'port': 1}}"
    nested = without_passwords(json.dumps({"text": json.dumps({"password": "hunter2" + password.replace("\\", "")})}))
    assert "hunter2" not in nested


@settings(max_examples=10_000 if NIGHTLY else 300)
@given(ONE_WORD.filter(lambda text: not set(text) & set("\"',;&)]}=:\\")))
def test_passwords_without_quotes(password: str) -> None:
    assume(not password.lower().startswith("bearer"))
    assert without_passwords(f"password={password}") == f"password={HIDDEN}"
    assert without_passwords(f"f(token={password}, x)") == f"f(token={HIDDEN}, x)"
    assert without_passwords(f"h?a=1&sig={password}&b=2") == f"h?a=1&sig={HIDDEN}&b=2"


@settings(max_examples=10_000 if NIGHTLY else 300)
@given(ONE_WORD)
def test_passwords_in_urls_with_anything_in_them(password: str) -> None:
    assume(re.search(r"[\"'][,;:)\]}]|[\"']$|[,;]\w[\w+.-]*://", password) is None)
    url = f"see postgresql://ann:{password}@db/sales now"
    assert without_passwords(url) == f"see postgresql://ann:{HIDDEN}@db/sales now"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p/w@h/x", f"postgresql://u:{HIDDEN}@h/x"),
        ("postgresql://u:pa@ss@h/x", f"postgresql://u:{HIDDEN}@h/x"),
        ("https://u:p@a/x,https://v:q@b/y", f"https://u:{HIDDEN}@a/x,https://v:{HIDDEN}@b/y"),
        ("https://:p@a/x", f"https://:{HIDDEN}@a/x"),
        ("password=a;b&c,d user=x", f"password={HIDDEN} user=x"),
        ("password='never closed\nnext line", f"password={HIDDEN}\nnext line"),
        ("AccountName=x;AccountKey=ab+/==;Suffix=y", f"AccountName=x;AccountKey={HIDDEN};Suffix=y"),
        ("Authorization: Basic dXNlcjpwdw==", f"Authorization: {HIDDEN}"),
        ("{'Authorization': 'Bearer abc'}", f"{{'Authorization': {HIDDEN}}}"),
        ("got Bearer abcdefghijklmnop.qrs== back", f"got Bearer {HIDDEN} back"),
        (
            "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY----- b",
            f"a -----BEGIN RSA PRIVATE KEY-----{HIDDEN} b",
        ),
        ("-----BEGIN PRIVATE KEY-----\\nMIIE… and cut off", f"-----BEGIN PRIVATE KEY-----{HIDDEN}"),
    ],
)
def test_texts_as_they_come(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


@pytest.mark.parametrize(
    "piece",
    [
        "token",
        "password='",
        "password=\\'",
        "password=\\",
        "password=,a",
        "://a:",
        "://a:@",
        "http://h:80/",
        "''",
        "a,",
        "bearer ",
        "-----BEGIN PRIVATE KEY-----",
        "@",
    ],
)
def test_long_texts_take_no_more_than_their_length(piece: str) -> None:
    """A text of some hundred kilobytes would take hours, if the time grew with its square."""
    long = piece * (200_000 // len(piece))
    for begin in ("", "password='", "password=", "x://u:"):
        without_passwords(begin + long)
