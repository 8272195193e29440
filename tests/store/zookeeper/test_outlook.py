"""What whoever gets no session tells of the servers, and when it tells nothing."""

import asyncio

from broker_ctl.store.zookeeper.server_status import Outlook


async def test_a_server_that_answers_after_the_outage_says_nothing_of_what_is_now() -> None:
    is_asked, may_answer, told = asyncio.Event(), asyncio.Event(), list[int]()

    async def electing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        is_asked.set()
        await may_answer.wait()
        writer.write(b"This ZooKeeper instance is not currently serving requests\n")
        writer.close()

    async with await asyncio.start_server(electing, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        outlook = Outlook([(host, port)], None, told.append)
        async with asyncio.TaskGroup() as group:
            group.create_task(outlook.look(), name="look")
            await is_asked.wait()
            outlook.on_session()
            may_answer.set()
        assert told == [0]
        await outlook.look()
        assert told == [0, 1]
