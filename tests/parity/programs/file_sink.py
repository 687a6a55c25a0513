"""FileSink with row format: what is in the finished files, their names' prefix and suffix, and their buckets."""

import os
import shutil
import tempfile

from pyflink.common import Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy


def finished(base):
    """Every finished file as (bucket, name); what is hidden or in progress is left out."""
    for folder, _, names in os.walk(base):
        for name in names:
            if not name.startswith((".", "_")) and "inprogress" not in name:
                yield os.path.relpath(folder, base), name


def show(title, base):
    lines = []
    for bucket, name in finished(base):
        with open(os.path.join(base, bucket, name), encoding="utf-8") as file:
            lines.extend(file.read().splitlines())
    for line in sorted(lines):
        print(title, line)


if __name__ == "__main__":
    directory = tempfile.mkdtemp()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    beads = env.from_collection(
        [("red", 1), ("blue", 2), ("green", 3), ("red", 4), ("white", 5)],
        type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
    )

    text = os.path.join(directory, "text")
    beads.map(lambda b: f"{b[0]};{b[1]}", output_type=Types.STRING()).sink_to(
        FileSink.for_row_format(text, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("beads").with_part_suffix(".csv").build())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1024, rollover_interval=60_000))
        .build()
    ).name("text")

    tuples = os.path.join(directory, "tuples")
    beads.key_by(lambda b: b[0]).sum(1).sink_to(
        FileSink.for_row_format(tuples, Encoder.simple_string_encoder()).build()
    )

    numbers = os.path.join(directory, "numbers")
    beads.map(lambda b: b[1] / 4, output_type=Types.DOUBLE()).sink_to(
        FileSink.for_row_format(numbers, Encoder.simple_string_encoder("UTF-8"))
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("'year-'yyyy", "UTC"))
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    ).set_parallelism(1)
    env.execute("file sink")

    show("text", text)
    print("names", all(n.startswith("beads-") and n.endswith(".csv") for _, n in finished(text)))
    print("buckets", {bucket for bucket, _ in finished(text)})
    show("tuples", tuples)
    show("numbers", numbers)
    print("dated", all(bucket.startswith("year-2") and len(bucket) == 9 for bucket, _ in finished(numbers)))
    shutil.rmtree(directory)
