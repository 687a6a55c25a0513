"""execute_async and what its JobClient and JobExecutionResult say; several jobs of one environment."""

from pyflink.common import JobStatus, Types
from pyflink.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2, 3], type_info=Types.INT())
    numbers.map(lambda n: n * 2).print("first")
    client = env.execute_async("in the background")
    result = client.get_job_execution_result().result()
    print("id", len(str(client.get_job_id())), str(client.get_job_id()) == str(result.get_job_id()))
    print("runtime", result.get_net_runtime() >= 0)
    print("done", client.get_job_execution_result().done())

    # What was executed is forgotten: only the new sink belongs to the next job.
    numbers.map(lambda n: n * 3).print("second")
    result = env.execute("in the foreground")
    print("foreground", len(str(result.get_job_id())), result.get_net_runtime() >= 0)

    numbers.map(lambda n: n * 5).print("third")
    client = env.execute_async()
    future = client.get_job_execution_result()
    future.result()
    print("future", future.done(), future.cancelled(), future.exception())
    print("terminal", JobStatus.FINISHED.is_globally_terminal_state(), JobStatus.RUNNING.is_terminal_state())
