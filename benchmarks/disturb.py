"""A client in a process of its own that does nothing but fetch large results.

Run as ``python -m benchmarks.disturb SIZE ADDRESS``, the address as JSON. It says ``ready`` after
the first result, ends with its input, and says then how many it got.
"""

import asyncio
import json
import sys

import uvloop

from benchmarks.client import Address, Client, blob


async def main(size_bytes: int, address: Address) -> None:
    """Fetch until stdin ends."""
    client = await Client.open(address)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    make, count = blob(size_bytes), 0
    await client.call(make)
    print("ready", flush=True)
    while not ended.done():
        await client.call(make)
        count += 1
    await client.close()
    print(count, flush=True)


if __name__ == "__main__":
    socket, attach, command = json.loads(sys.argv[2])
    uvloop.run(main(int(sys.argv[1]), Address(socket, attach, tuple(command))))
