"""Amazon Kinesis: streams are read and written, Firehose is written."""
