"""A stand-in for the package `spaces` of a Space that lends GPUs, without a GPU.

As the real one does (spaces 0.51, zero/wrappers.py): a generator runs in a forked worker, in a thread of its own;
arguments and yields are pickled; a worker is kept for the next run; closing the generator lets the worker close its own
after the next yield; an exception that is not a gr.Error is printed with its text, and only its name comes through.
Each run is noted in the file that SPACES_STANDIN names.
"""

import inspect
import json
import multiprocessing
import os
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from pathlib import Path

import gradio as gr

context = multiprocessing.get_context("fork")


def GPU(task=None, *, duration=None):
    if task is None:
        return partial(GPU, duration=duration)
    assert inspect.isgeneratorfunction(task), "the real one takes it for a plain function, and cannot pickle its result"
    kept = []

    @wraps(task)
    def handler(*args, **kwargs):
        worker = kept.pop() if kept and kept[0].process.is_alive() else Worker(task)
        note(asked=duration(*args, **kwargs), worker=worker.process.pid, parent=os.getpid())
        worker.arguments.put((args, kwargs))
        while True:
            kind, value = worker.results.get()
            if kind == "end":
                break
            if kind == "error":
                print(value[1])
                raise gr.Error(value[0], print_exception=False)
            try:
                yield value
            except GeneratorExit:
                worker.stop.set()
                while worker.results.get()[0] != "end":
                    pass
                note(stopped=worker.process.pid)
                kept.append(worker)
                raise
        note(ended=worker.process.pid)
        kept.append(worker)

    return handler


def gradio_auto_wrap(task):
    return task


class Worker:
    def __init__(self, task):
        self.arguments, self.results, self.stop = context.SimpleQueue(), context.SimpleQueue(), context.Event()
        self.process = context.Process(target=self.work, args=(task,), daemon=True)
        self.process.start()

    def work(self, task):
        parent = os.getppid()
        while os.getppid() == parent:  # a server that is killed takes its workers along
            if self.arguments.empty():
                time.sleep(0.05)
                continue
            args, kwargs = self.arguments.get()
            self.stop.clear()
            with ThreadPoolExecutor() as threads:
                threads.submit(self.iterate, task(*args, **kwargs)).result()
            self.results.put(("end", None))

    def iterate(self, stream):
        try:
            for value in stream:
                if self.stop.is_set():
                    stream.close()
                    return
                self.results.put(("value", value))
        except Exception as problem:
            self.results.put(("error", (type(problem).__name__, traceback.format_exc())))


def note(**what):
    with Path(os.environ["SPACES_STANDIN"]).open("a") as file:
        file.write(json.dumps(what) + "\n")
