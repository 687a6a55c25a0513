"""What nobody is shown of the options."""

from __future__ import annotations

import pytest

from beadline.common.secrets import HIDDEN, masked


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
