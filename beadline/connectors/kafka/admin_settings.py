"""What kafka-python's admin client needs to know, from the settings of librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beadline.errors import ConfigurationError, UnsupportedFeatureError

# Its name here, and what it is called there.
_SAME = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}

# Security that only librdkafka knows. Without it the client would not get in, or would get in unchecked.
_ELSEWHERE = {
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location (PEM files)",
    "ssl.keystore.password": "ssl.certificate.location and ssl.key.location (PEM files)",
    "ssl.ca.pem": "ssl.ca.location (a PEM file)",
    "ssl.certificate.pem": "ssl.certificate.location (a PEM file)",
    "ssl.key.pem": "ssl.key.location (a PEM file)",
}


class Secret(str):
    """A text that no representation shows: kafka-python logs its settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def admin_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``KafkaAdminClient``, from settings of librdkafka. What is not about the connection is left out.

    :raises UnsupportedFeatureError: for security that kafka-python can't have
    """
    for name, instead in _ELSEWHERE.items():
        if name in config:
            raise UnsupportedFeatureError(
                f"Kafka property '{name}': the client that ends transactions can't use it. Set {instead} instead."
            )
    if "bootstrap.servers" not in config:
        raise ConfigurationError("No Kafka broker is named: set 'bootstrap.servers'.")
    settings: dict[str, Any] = {there: config[here] for here, there in _SAME.items() if here in config}
    for name in ("sasl_plain_password", "ssl_password"):
        if name in settings:
            settings[name] = Secret(settings[name])
    settings["bootstrap_servers"] = str(config["bootstrap.servers"]).split(",")
    if "security_protocol" in settings:
        settings["security_protocol"] = str(settings["security_protocol"]).upper()
    if str(settings.get("sasl_mechanism", "")).upper() == "OAUTHBEARER":
        raise UnsupportedFeatureError(
            "Kafka property 'sasl.mechanism': the client that ends transactions can't log in with OAUTHBEARER. "
            "Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or GSSAPI for exactly-once delivery."
        )
    settings.update(_host_check(config))
    return settings


def _host_check(config: Mapping[str, Any]) -> dict[str, Any]:
    if str(config.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        import ssl

        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if "ssl.certificate.location" in config:
            context.load_cert_chain(
                str(config["ssl.certificate.location"]),
                str(config["ssl.key.location"]) if "ssl.key.location" in config else None,
                str(config["ssl.key.password"]) if "ssl.key.password" in config else None,
            )
        return {"ssl_context": context}
    algorithm = config.get("ssl.endpoint.identification.algorithm")
    return {} if algorithm is None else {"ssl_check_hostname": str(algorithm).lower() not in ("", "none")}
