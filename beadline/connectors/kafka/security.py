"""Kafka's security properties: from what Java's clients call them to what librdkafka calls them.

No message of this module has a value in it: some of them are passwords.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from beadline.errors import ConfigurationError, UnsupportedFeatureError

# Take part in a translation below, together with others.
PROPERTIES = frozenset(
    {
        "sasl.jaas.config",
        "sasl.mechanism",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)

_OPTION = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")
_TO_PEM = (
    "Export the certificates as PEM (keytool -importkeystore -srckeystore STORE -destkeystore store.p12 -deststoretype "
    "PKCS12; openssl pkcs12 -in store.p12 -nodes -out store.pem)"
)


def security_settings(given: dict[str, str]) -> dict[str, str]:
    """The settings of librdkafka for those of :data:`PROPERTIES` that were given."""
    made: dict[str, str] = {}
    if "sasl.mechanism" in given:
        made["sasl.mechanism"] = given["sasl.mechanism"]
    if "sasl.jaas.config" in given:
        made.update(_log_in(given["sasl.jaas.config"], given))
    elif "sasl.oauthbearer.token.endpoint.url" in given:
        raise ConfigurationError("Kafka property 'sasl.oauthbearer.token.endpoint.url' needs 'sasl.jaas.config'.")
    made.update(_truststore(given))
    made.update(_keystore(given))
    if "ssl.key.password" in given:
        made["ssl.key.password"] = given["ssl.key.password"]
    if "ssl.endpoint.identification.algorithm" in given:
        # Java's clients turn the check off with an empty text.
        made["ssl.endpoint.identification.algorithm"] = given["ssl.endpoint.identification.algorithm"].lower() or "none"
    return made


# -- SASL


def _log_in(jaas: str, given: dict[str, str]) -> dict[str, str]:
    """What a line of JAAS says: ``module required option="value" …;``."""
    words = jaas.split(None, 2)
    if len(words) < 2:
        raise ConfigurationError(
            "Kafka property 'sasl.jaas.config' can't be read; it looks like: "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";'
        )
    module = words[0].rpartition(".")[2]
    make = _MODULES.get(module)
    if make is None:
        raise UnsupportedFeatureError(
            f"Kafka property 'sasl.jaas.config' names the log-in module {module}. PlainLoginModule, ScramLoginModule "
            "and OAuthBearerLoginModule are supported. For Kerberos leave it out, and set "
            "'sasl.kerberos.service.name', 'sasl.kerberos.principal' and 'sasl.kerberos.keytab'."
        )
    options = {name: _unquoted(value) for name, value in _OPTION.findall(words[2] if len(words) > 2 else "")}
    return make(options, given)


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"'):
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return value


def _needed(options: dict[str, str], name: str) -> str:
    if name not in options:
        raise ConfigurationError(f"Kafka property 'sasl.jaas.config' has no {name}.")
    return options[name]


def _by_password(default_mechanism: str | None) -> Callable[[dict[str, str], dict[str, str]], dict[str, str]]:
    def make(options: dict[str, str], given: dict[str, str]) -> dict[str, str]:
        made = {"sasl.username": _needed(options, "username"), "sasl.password": _needed(options, "password")}
        if "sasl.mechanism" not in given:
            if default_mechanism is None:
                raise ConfigurationError(
                    "Kafka property 'sasl.mechanism' is needed with ScramLoginModule: SCRAM-SHA-256 or SCRAM-SHA-512."
                )
            made["sasl.mechanism"] = default_mechanism
        return made

    return make


def _by_token(options: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    url = given.get("sasl.oauthbearer.token.endpoint.url")
    if url is None:
        raise UnsupportedFeatureError(
            "Kafka property 'sasl.jaas.config' names OAuthBearerLoginModule without "
            "'sasl.oauthbearer.token.endpoint.url': only tokens that come from such an address are supported."
        )
    made = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.id": _needed(options, "clientId"),
        "sasl.oauthbearer.client.secret": _needed(options, "clientSecret"),
    }
    if "scope" in options:
        made["sasl.oauthbearer.scope"] = options["scope"]
    return made


_MODULES: dict[str, Callable[[dict[str, str], dict[str, str]], dict[str, str]]] = {
    "PlainLoginModule": _by_password("PLAIN"),
    "ScramLoginModule": _by_password(None),
    "OAuthBearerLoginModule": _by_token,
}

# -- TLS


def _truststore(given: dict[str, str]) -> dict[str, str]:
    if "ssl.truststore.certificates" in given:
        return {"ssl.ca.pem": given["ssl.truststore.certificates"]}
    location = given.get("ssl.truststore.location")
    if location is None:
        return {}
    kind = _kind(location, given.get("ssl.truststore.type"))
    if kind != "PEM":
        raise UnsupportedFeatureError(
            f"Kafka property 'ssl.truststore.location' names a store of type {kind}, which the client can't read. "
            f"{_TO_PEM}, and set ssl.truststore.type=PEM."
        )
    return {"ssl.ca.location": location}


def _keystore(given: dict[str, str]) -> dict[str, str]:
    if "ssl.keystore.key" in given:
        if "ssl.keystore.certificate.chain" not in given:
            raise ConfigurationError("Kafka property 'ssl.keystore.key' needs 'ssl.keystore.certificate.chain'.")
        chain = given["ssl.keystore.certificate.chain"]
        return {"ssl.key.pem": given["ssl.keystore.key"], "ssl.certificate.pem": chain}
    location = given.get("ssl.keystore.location")
    if location is None:
        return {}
    kind = _kind(location, given.get("ssl.keystore.type"))
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12":
        made = {"ssl.keystore.location": location}
        if "ssl.keystore.password" in given:
            made["ssl.keystore.password"] = given["ssl.keystore.password"]
        return made
    raise UnsupportedFeatureError(
        f"Kafka property 'ssl.keystore.location' names a store of type {kind}, which the client can't read. "
        f"{_TO_PEM}, and set ssl.keystore.type=PEM."
    )


def _kind(location: str, declared: str | None) -> str:
    """A store's type. Java's default is JKS, whatever the file is called."""
    if declared:
        return declared.upper()
    ending = location.lower().rpartition(".")[2]
    return {"pem": "PEM", "crt": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}.get(ending, "JKS")
