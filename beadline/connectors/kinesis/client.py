"""Clients of AWS, made from the properties that Flink's connectors take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beadline.errors import ConfigurationError, EnvironmentSetupError

REGION = "aws.region"
ENDPOINT = "aws.endpoint"
PROVIDER = "aws.credentials.provider"
_BASIC_ID = f"{PROVIDER}.basic.accesskeyid"
_BASIC_SECRET = f"{PROVIDER}.basic.secretkey"
_BASIC_TOKEN = f"{PROVIDER}.basic.sessiontoken"
_PROFILE_NAME = f"{PROVIDER}.profile.name"
_TRUST_ALL = "aws.trust.all.certificates"
KNOWN = frozenset({REGION, ENDPOINT, PROVIDER, _BASIC_ID, _BASIC_SECRET, _BASIC_TOKEN, _PROFILE_NAME, _TRUST_ALL})
_PROVIDERS = ("AUTO", "ENV_VAR", "BASIC", "PROFILE")


def checked(properties: Mapping[str, Any], who: str, own: frozenset[str] = frozenset()) -> dict[str, str]:
    """The properties as text; those that nobody would heed are refused by name.

    :param own: further properties that the connector understands
    """
    texts = {str(key): str(value) for key, value in properties.items()}
    unknown = sorted(set(texts) - KNOWN - own)
    if unknown:
        raise ConfigurationError(
            f"{who}: Beadline can't heed the property {', '.join(map(repr, unknown))}. It knows "
            f"{', '.join(sorted(KNOWN | own))}."
        )
    provider = provider_of(texts)
    if provider not in _PROVIDERS:
        raise ConfigurationError(f"{who}: '{PROVIDER}' must be {', '.join(_PROVIDERS)}, got {provider!r}.")
    if provider == "BASIC" and not (texts.get(_BASIC_ID) and texts.get(_BASIC_SECRET)):
        raise ConfigurationError(f"{who}: '{PROVIDER}' is BASIC, which needs '{_BASIC_ID}' and '{_BASIC_SECRET}'.")
    if not texts.get(REGION) and not texts.get(ENDPOINT):
        raise ConfigurationError(f"{who}: say where the stream is: set '{REGION}', such as 'eu-central-1'.")
    return texts


def provider_of(properties: Mapping[str, str]) -> str:
    """How to log in; keys in the properties mean BASIC, as in Flink."""
    default = "BASIC" if properties.get(_BASIC_ID) else "AUTO"
    return properties.get(PROVIDER, default).upper()


def make_client(service: str, properties: Mapping[str, str]) -> Any:
    """A client of one of AWS' services."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise EnvironmentSetupError(
            "Kinesis needs the package boto3: pip install 'beadline[kinesis]' where the job is started and on all "
            "workers"
        ) from error
    session: dict[str, Any] = {"region_name": properties.get(REGION) or "us-east-1"}
    provider = provider_of(properties)
    if provider == "BASIC":
        session["aws_access_key_id"] = properties[_BASIC_ID]
        session["aws_secret_access_key"] = properties[_BASIC_SECRET]
        session["aws_session_token"] = properties.get(_BASIC_TOKEN)
    elif provider == "PROFILE":
        session["profile_name"] = properties.get(_PROFILE_NAME, "default")
    made = boto3.session.Session(**session)
    trust_all = properties.get(_TRUST_ALL, "false").lower() == "true"
    return made.client(
        service,
        endpoint_url=properties.get(ENDPOINT) or None,
        verify=not trust_all,
        config=Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=30),
    )


def named(stream: str) -> dict[str, str]:
    """The arguments that name a stream, which may be given as a name or as an ARN."""
    if stream.startswith("arn:"):
        return {"StreamARN": stream, "StreamName": stream.rpartition("/")[2]}
    return {"StreamName": stream}


def code_of(error: Exception) -> str:
    """What AWS calls an error; empty if it does not come from there."""
    response: Any = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
