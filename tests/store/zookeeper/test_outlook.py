"""What a client without a session reports of the servers, and when it reports nothing."""

import asyncio

from broker_ctl.store.zookeeper.server_status import Outlook


async def test_an_answer_that_arrives_after_the_outage_is_not_reported() -> None:
    is_asked, may_answer, reported = asyncio.Event(), asyncio.Event(), list[int]()

    async def electing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        is_asked.set()
        await may_answer.wait()
        writer.write(b"This ZooKeeper instance is not currently serving requests\n")
        writer.close()

    async with await asyncio.start_server(electing, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        outlook = Outlook([(host, port)], None, reported.append)
        async with asyncio.TaskGroup() as group:
            group.create_task(outlook.look(), name="look")
            await is_asked.wait()
            outlook.on_session()
            may_answer.set()
        assert reported == [0]
        await outlook.look()
        assert reported == [0, 1]
