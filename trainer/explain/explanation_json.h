// The explanation of a run for programs: one JSON object. Sizes are in elements, memory and traffic in bytes.
// All numbers are those of one training step and of one mesh position, unless the key says otherwise. Keys
// keep their names and meaning; new keys may be added.
//
//   version                  1
//   model                    {name, type, parameters}; name: of the run
//   layout                   {layout, parameter_layout, optimizer_layout: [{dimension, mesh_dimensions}]}
//   mesh                     {dimensions: [{name, size}], positions}
//   processes                {count, positions, bytes_sent}: positions of each; bytes_sent by a process to
//                            others, the mean over processes (with more than 16, that of the first)
//   batch_size, microbatches
//   variables                [{name, kind: weight | slot | statistic, TENSOR, on_host: true where a GPU has it in the
//                            memory of its machine}]
//   tensors                  [{operation, layer, phase: forward | backward | update, times, in_place,
//                            TENSOR}] in order of execution; absent with explain.tensors=false.
//                            in_place: in the memory of an operand or variable
//   contractions             [{operation, layer, phase, times, dimensions, shape, split, flops, unique_flops,
//                            repeated_over}]. dimensions: the union of those of the operands;
//                            unique_flops: on the whole mesh if no position repeated another's work;
//                            repeated_over: mesh dimensions along which all positions do the same work
//   collectives              [{kind: all_reduce | reduce_scatter | all_gather | all_to_all | exchange |
//                            send,
//                            mesh_dimensions, operation, layer, phase, variable, message, times, bytes_sent,
//                            TENSOR}], one for each tensor; bytes_sent: each time; those with one `message`
//                            travel together; variable: the one that is gathered or set, or null
//   traffic                  [{mesh_dimensions, collectives, bytes_sent}]. collectives: messages in a step
//   schedule                 [ITEM] in order of execution in a process. ITEM: {layer, phase, kind, flops, bytes, seconds},
//                            an operation, kind: as of `work`, or with {message} a collective within the process;
//                            {start: message, kind, mesh_dimensions, layer, phase, bytes_sent, seconds, processor}, a
//                            collective between processes, processor: seconds that it keeps from computing; {wait:
//                            [message]}; {repeat: times, body: [ITEM]}. A message is that of `collectives`. flops and
//                            bytes are those of one position, seconds those predicted for all of the process
//   lanes                    with the stages of a pipeline in several processes, how many kinds of processes there are, else 1.
//                            The schedule is then that of one process of each; an item that one lane does has {lane}, and
//                            what it sends to others {to: [LANE]}
//   peak_flops               run.peak_flops, or null
//   hardware                 {given, name, kind, cores, memory, links: [{name, processes, bandwidth, latency}]}; given:
//                            by section `hardware`, otherwise its defaults, which stand for no machine; memory: bytes
//                            or null
//   prediction               {seconds, computing, waiting, sending, step, kinds: {KIND: seconds}, examples_per_second,
//                            tokens_per_second, utilization} of a step on this hardware (prediction.h). step: seconds
//                            besides the program; kinds: of computing; tokens_per_second: null without
//                            data.sequence_length; utilization: MFU
//   work                     {KIND: {operations, flops, bytes}}, KIND: products | attention | elementwise | norms |
//                            reductions | sums | movement | updates | collectives; bytes: read and written, of collectives
//                            sent
//   layers                   [{layer, parameters, flops: {forward, backward, update}, bytes_sent, operations,
//                            bytes_moved}]; bytes_moved: read and written by operations other than products,
//                            attention and collectives
//   counters                 {NAME: {elements, bytes}} over all positions, without sums over name prefixes
//   step                     {flops, unique_flops, bytes_sent, collectives, bytes_per_flop (null: no FLOPs)}
//   evaluation               the keys of `step` and batch_size, for one batch; null without evaluate.datasets
//   memory                   {position: {parts: {NAME: bytes}, bytes, fits}, process: the same,
//                            limit: {bytes, source}, device: as process, or null without a GPU,
//                            device_limit: as limit, or null if it is not known}. position: its tensors, as if
//                            alone on its device; process: its resident memory; device: the memory of its GPU.
//                            They include the evaluation and the snapshot of a checkpoint, which is host memory
//   pipeline                 {mesh_dimension, stages, rounds, schedule: 1f1b | gpipe, bubble, bytes: [BYTES], parameters:
//                            [NUMBER]}, or null without stages. bubble: the part of the loop over microbatches in which a
//                            stage waits at least; bytes: by stage, tensors of the step on one of its positions
//   recompute                {recompute, microbatches, trials: [{recompute, microbatches, seconds, bytes, limit, fits}]} of
//                            train.recompute: auto, the fastest first; null otherwise. recompute: YAML text; bytes and
//                            limit: of the machine's memory, or of the GPU's if that is limited
//   repeated_flops           FLOPs that a position would not do if no work were repeated
//   splits                   [{dimension, mesh_dimensions, flops, bytes_sent, position_bytes}]: rules of the
//                            key `layout` that were tried and save repeated work; position_bytes: memory of
//                            the step alone
//   unused_mesh_dimensions   [name]
//   warnings, notes          [text]
//   simulation               a long run with failures, with section `simulate` (trainer/simulate/simulate.h)
//
// TENSOR: dimensions: [name], shape: [size], split: [[mesh dimension]] outermost first, local_shape: [size],
// partial_over: [mesh dimension], dtype, bytes. `layer` is a scope path, "" outside all layers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/explain/explain.h"

namespace mtf {

nlohmann::ordered_json explanation_document(const Explanation& explanation, bool tensors);
/// Returns the JSON text, which ends with a newline. `tensors` includes the key of this name.
std::string explain_json(const Explanation& explanation, bool tensors);

}  // namespace mtf
