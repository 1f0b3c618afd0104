#!/usr/bin/env python3
"""Writes 13_auto_layout/graphs.yaml: the operations of the graphs of 13_auto_layout/case.yaml, in the order in which the
original's LIST scheduler runs them.

    python3 make_auto_layout.py > 13_auto_layout/graphs.yaml

Needs mesh-tensorflow 0.1.21 and tensorflow 2.12, and no solver."""
import fractions
import math

fractions.gcd = math.gcd  # removed in Python 3.9
import mesh_tensorflow as mtf
import tensorflow.compat.v1 as tf
from mesh_tensorflow.auto_mtf import graph_interface, scheduler

tf.disable_v2_behavior()


def start(**sizes):
    graph = mtf.Graph()
    return graph, mtf.Mesh(graph, "mesh"), [mtf.Dimension(name, size) for name, size in sizes.items()]


def matmul():
    graph, mesh, (a, b, c) = start(a=10, b=5, c=20)
    return graph, [mtf.einsum([mtf.zeros(mesh, [a, b]), mtf.zeros(mesh, [b, c])], output_shape=[a, c])]


def mlp():
    graph, mesh, (batch, io, hidden) = start(batch=16, io=8, hidden=32)
    x = mtf.zeros(mesh, [batch, io])
    w1, w2 = (mtf.get_variable(mesh, name, shape) for name, shape in [("w1", [io, hidden]), ("w2", [hidden, io])])
    h = mtf.relu(mtf.einsum([x, w1], output_shape=[batch, hidden]))
    y = mtf.einsum([h, w2], output_shape=[batch, io])
    loss = mtf.reduce_mean(mtf.square(y - x))
    return graph, [loss] + mtf.gradients([loss], [w1, w2])


def attention():
    graph, mesh, (batch, heads, length, d_kv) = start(batch=8, heads=4, length=6, d_kv=8)
    memory_length = mtf.Dimension("memory_length", length.size)
    q, k = (mtf.zeros(mesh, [batch, heads, rows, d_kv]) for rows in (length, memory_length))
    weights = mtf.softmax(mtf.einsum([q, k], output_shape=[batch, heads, length, memory_length]), memory_length)
    return graph, [mtf.einsum([weights, k], output_shape=[batch, heads, length, d_kv])]


print("# Written by make_auto_layout.py: name, operands, shape and bytes of an element of each result; results that live to the end.")
for build in (matmul, mlp, attention):
    tf.reset_default_graph()
    graph, outputs = build()
    interface = graph_interface.GraphInterface(graph)
    for output in outputs:
        interface.set_tensor_final(output.name)
    print(f"{build.__name__}:\n  operations:")
    for operation in (graph.operations[i] for i in scheduler.minimize_peak_memory(interface, "LIST")):
        result, = operation.outputs
        operands = ", ".join(operand.operation.name for operand in operation.inputs)
        shape = ",".join(f"{d.name}:{d.size}" for d in result.shape.dims)
        print(f'    - {{name: {operation.name}, operands: [{operands}], shape: "{shape}", element: {result.dtype.size}}}')
    print(f"  outputs: [{', '.join(output.operation.name for output in outputs)}]")
