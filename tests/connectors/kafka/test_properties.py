"""Properties of Kafka's Java clients, as librdkafka is told them."""

from __future__ import annotations

import logging

import pytest

from beadline.common.serialization import SimpleStringSchema
from beadline.connectors.kafka.properties import consumer_settings, producer_settings
from beadline.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    Semantic,
)
from beadline.errors import BeadlineError, ConfigurationError, TypeMismatchError, UnsupportedFeatureError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SHADED = "org.apache.flink.kafka.shaded.org.apache.kafka.common.security.scram.ScramLoginModule"


def test_names_that_both_clients_have() -> None:
    given = {"bootstrap.servers": "a:1,b:2", "group.id": "g", "isolation.level": "read_committed"}
    assert consumer_settings(given) == given


def test_values_may_be_numbers() -> None:
    assert consumer_settings({"fetch.min.bytes": 5, "check.crcs": True}) == {
        "fetch.min.bytes": "5",
        "check.crcs": "true",
    }


def test_other_names() -> None:
    given = {
        "fetch.max.wait.ms": "100",
        "max.partition.fetch.bytes": "2000",
        "request.timeout.ms": "30000",
        "receive.buffer.bytes": "-1",
    }
    assert consumer_settings(given) == {
        "fetch.wait.max.ms": "100",
        "fetch.message.max.bytes": "2000",
        "socket.timeout.ms": "30000",
        "socket.receive.buffer.bytes": "0",
    }
    assert producer_settings({"buffer.memory": 33554432, "max.request.size": "5000000"}) == {
        "queue.buffering.max.kbytes": "32768",
        "message.max.bytes": "5000000",
    }


def test_what_has_no_meaning_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "max.poll.records": "5",
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    }
    with caplog.at_level(logging.INFO, "beadline.kafka"):
        assert consumer_settings(given) == {}
    assert "key.deserializer, max.poll.records, ssl.enabled.protocols" in caplog.text


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bootstrap.server", r"Did you mean 'bootstrap\.servers'"),
        ("interceptor.classes", "classes of Java"),
        ("ssl.protocol", r"TLSv1\.2"),
        ("no.such.thing.at.all", r"no\.such\.thing\.at\.all"),
    ],
)
def test_what_cant_be_translated_is_refused_by_name(name: str, hint: str) -> None:
    with pytest.raises(BeadlineError, match=hint):
        consumer_settings({name: "x"})


def test_one_dict_serves_a_consumer_and_a_producer(caplog: pytest.LogCaptureFixture) -> None:
    both = {
        "bootstrap.servers": "b:1",
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "isolation.level": "read_committed",
        "max.poll.records": "5",
        "acks": "all",
        "request.timeout.ms": "20000",
        "buffer.memory": "1048576",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    }
    with caplog.at_level(logging.INFO, "beadline.kafka"):
        assert producer_settings(both) == {
            "bootstrap.servers": "b:1",
            "acks": "all",
            "request.timeout.ms": "20000",
            "queue.buffering.max.kbytes": "1024",
        }
    assert "of a consumer, left out for this producer: auto.offset.reset, enable.auto.commit, group.id" in caplog.text
    own = frozenset({"auto.offset.reset", "enable.auto.commit"})
    assert consumer_settings(both, own) == {
        "bootstrap.servers": "b:1",
        "group.id": "g",
        "isolation.level": "read_committed",
        "socket.timeout.ms": "20000",
    }


def test_a_producer_with_a_group_still_has_the_rules_of_exactly_once() -> None:
    given = {"bootstrap.servers": "b:1", "group.id": "g"}
    for weaker in ({"acks": "1"}, {"enable.idempotence": "false"}):
        with pytest.raises(ConfigurationError, match="exactly-once delivery needs"):
            FlinkKafkaProducer("t", SimpleStringSchema(), {**given, **weaker}, semantic=Semantic.EXACTLY_ONCE)
    FlinkKafkaProducer("t", SimpleStringSchema(), given, semantic=Semantic.EXACTLY_ONCE)


def test_a_producer_has_no_transactional_id_of_its_own() -> None:
    with pytest.raises(UnsupportedFeatureError, match="set_transactional_id_prefix"):
        producer_settings({"transactional.id": "mine"})


def test_log_in_by_password() -> None:
    jaas = f'{PLAIN} required username="alice" password="se;c\\"ret";'
    assert consumer_settings({"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas}) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": 'se;c"ret',
    }


def test_log_in_by_scram_in_the_shaded_connector() -> None:
    jaas = f"{SHADED} required username='bob' password=plain;"
    made = consumer_settings({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas})
    assert made == {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "bob", "sasl.password": "plain"}
    with pytest.raises(ConfigurationError, match=r"sasl\.mechanism"):
        consumer_settings({"sasl.jaas.config": jaas})


def test_log_in_by_token() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    made = consumer_settings(
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://id/token",
            "sasl.jaas.config": f'{module} required clientId="job" clientSecret="hidden" scope="read";',
        }
    )
    assert made["sasl.oauthbearer.method"] == "oidc"
    assert made["sasl.oauthbearer.client.id"] == "job"
    assert made["sasl.oauthbearer.client.secret"] == "hidden"
    assert made["sasl.oauthbearer.scope"] == "read"


@pytest.mark.parametrize(
    "jaas",
    [
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true password='TopSecret';",
        f'{PLAIN} required user="x" password="TopSecret";',
        "TopSecret",
    ],
)
def test_passwords_are_not_in_errors(jaas: str) -> None:
    with pytest.raises(BeadlineError) as caught:
        consumer_settings({"sasl.jaas.config": jaas})
    assert "TopSecret" not in str(caught.value)
    assert "sasl.jaas.config" in str(caught.value)


def test_stores_of_certificates() -> None:
    given = {
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "p",
        "ssl.key.password": "k",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert consumer_settings(given) == {
        "ssl.ca.location": "/ca.pem",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "p",
        "ssl.key.password": "k",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert consumer_settings({"ssl.keystore.location": "/me.pem"}) == {
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
    }


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.keystore.location"])
def test_java_stores_are_refused_with_a_way_out(name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"JKS.*keytool.*openssl"):
        consumer_settings({name: "/etc/kafka/store.jks"})


# -- builders


def complete() -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("a")
    return made.set_value_only_deserializer(SimpleStringSchema())


def test_a_source_that_lacks_something_says_what() -> None:
    with pytest.raises(ConfigurationError, match="set_topics"):
        KafkaSource.builder().build()
    with pytest.raises(ConfigurationError, match="set_value_only_deserializer"):
        KafkaSource.builder().set_topics("a").build()
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        KafkaSource.builder().set_topics("a").set_value_only_deserializer(SimpleStringSchema()).build()


def test_topics_are_set_once() -> None:
    with pytest.raises(ConfigurationError, match="reads a already"):
        complete().set_topic_pattern("b.*")


def test_committed_offsets_need_a_group() -> None:
    made = complete().set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
    with pytest.raises(ConfigurationError, match=r"group\.id"):
        made.build()
    made.set_group_id("g").build()


def test_bad_values_of_a_source() -> None:
    with pytest.raises(ConfigurationError, match="earliest, latest or none"):
        complete().set_property("auto.offset.reset", "newest").build()
    with pytest.raises(ConfigurationError, match="whole number"):
        complete().set_property("partition.discovery.interval.ms", "often").build()
    with pytest.raises(ConfigurationError, match="true or false"):
        complete().set_group_id("g").set_property("commit.offsets.on.checkpoint", "yes").build()
    with pytest.raises(ConfigurationError, match="earliest"):
        complete().set_bounded(KafkaOffsetsInitializer.earliest())
    with pytest.raises(ConfigurationError, match="nothing to repeat"):
        KafkaSource.builder().set_topic_pattern("*")
    with pytest.raises(TypeMismatchError, match="DeserializationSchema"):
        KafkaSource.builder().set_value_only_deserializer(str)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is not an offset"):
        KafkaOffsetsInitializer.offsets({KafkaTopicPartition("a", 0): -1}, KafkaOffsetResetStrategy.NONE)


def test_each_source_has_its_own_name_for_discovery() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"flink\.partition-discovery\.interval-millis"):
        complete().set_property("flink.partition-discovery.interval-millis", "10").build()
    properties = {"bootstrap.servers": "b:1", "group.id": "g", "partition.discovery.interval.ms": "10"}
    with pytest.raises(UnsupportedFeatureError, match=r"partition\.discovery\.interval\.ms"):
        FlinkKafkaConsumer("a", SimpleStringSchema(), properties)


def test_an_old_consumer_starts_from_its_group() -> None:
    consumer = FlinkKafkaConsumer(["a", "b"], SimpleStringSchema(), {"bootstrap.servers": "b:1", "group.id": "g"})
    assert consumer.get_produced_type() == SimpleStringSchema().get_produced_type()
    assert not consumer._make_source().bounded


@pytest.mark.parametrize(("reset", "kind"), [(None, "latest"), ("earliest", "earliest"), ("latest", "latest")])
def test_an_old_consumer_without_a_group_starts_as_the_reset_says(reset: str | None, kind: str) -> None:
    properties = {"bootstrap.servers": "b:1"} | ({} if reset is None else {"auto.offset.reset": reset})
    source = FlinkKafkaConsumer("a", SimpleStringSchema(), properties)._make_source()
    reading = source._reading
    assert reading.start.kind == kind
    assert reading.auto_commit_seconds is None
    assert "group.id" not in reading.settings


def test_an_old_consumer_without_a_group_and_a_reset_has_nowhere_to_start() -> None:
    properties = {"bootstrap.servers": "b:1", "auto.offset.reset": "none"}
    with pytest.raises(ConfigurationError, match=r"group\.id"):
        FlinkKafkaConsumer("a", SimpleStringSchema(), properties)._make_source()
