#pragma once
/// @file
/// A layout as options of the programs that train with it: this book's, Megatron-LM, nanotron,
/// DeepSpeed and torchtitan. What a program does otherwise than planned, or not at all, a remark says.

#include <string>
#include <vector>

#include "chapters/11_five_d/planner/layout/layout.hpp"

namespace ultra::planner {

/// @brief Options of 11_five_d: "--dp 8", "--zero 1", ...
[[nodiscard]] std::vector<std::string> book_options(const Workload& work, const Layout& layout);

/// @brief The same as lines of a shell.
[[nodiscard]] std::string book_flags(const Workload& work, const Layout& layout);

/// @brief Options of Megatron-LM's pretrain scripts: "--tensor-model-parallel-size 8 ...".
///
/// Selective recomputation names the modules whose tensors this book drops (norms, and the product of
/// SwiGLU), for --recompute-activations alone would compute attention's scores again, which flash
/// attention does not keep.
/// Source: NVIDIA/Megatron-LM, megatron/training/arguments.py, and recompute_modules in
/// megatron/core/transformer/transformer_config.py.
[[nodiscard]] std::string megatron_options(const Workload& work, const Layout& layout);

/// @brief The parts of a nanotron configuration that the layout decides, as YAML.
/// Source: huggingface/nanotron, src/nanotron/config/parallelism_config.py.
[[nodiscard]] std::string nanotron_config(const Workload& work, const Layout& layout);

/// @brief A DeepSpeed configuration, as JSON: batch sizes, ZeRO, tp, offload, precision and
/// checkpointing. What the program must do (stages, experts) and what DeepSpeed does not have stand
/// under "remarks", a key that DeepSpeed does not read.
/// Source: deepspeed.ai, "DeepSpeed Configuration JSON".
[[nodiscard]] std::string deepspeed_config(const Workload& work, const Layout& layout);

/// @brief A function that returns a torchtitan configuration, in Python, as its guide advises: what the
/// layout decides of that of a model.
/// Source: pytorch/torchtitan, torchtitan/config/README.md and configs.py.
[[nodiscard]] std::string torchtitan_config(const Workload& work, const Layout& layout);

}  // namespace ultra::planner
