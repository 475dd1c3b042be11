"""A server as Python has them: a queue, a socket, a thread pool, a selector."""
import queue
import selectors
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


def process(job):
    burn(0.0015)


def worker(jobs):
    while True:
        process(jobs.get())


def handle(message):
    burn(0.0015)


def reader(conn):
    while True:
        handle(conn.recv(10))


def resize(n):
    burn(0.0015)


class Service:
    def __init__(self):
        self.selector = selectors.DefaultSelector()

    def on_readable(self, conn):
        conn.recv(10)
        burn(0.0015)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)


jobs = queue.Queue()
threading.Thread(target=worker, args=(jobs,), daemon=True).start()
here, there = socket.socketpair()
threading.Thread(target=reader, args=(there,), daemon=True).start()
pool = ThreadPoolExecutor(2)
service = Service()
left, right = socket.socketpair()
service.selector.register(right, selectors.EVENT_READ, service.on_readable)
threading.Thread(target=service.run, daemon=True).start()
done = None
while True:
    time.sleep(0.012)
    if jobs.empty():
        jobs.put(1)
    if done is None or done.done():
        here.send(b"m")
        left.send(b"e")
        done = pool.submit(resize, 1)
