#pragma once
/// @file
/// A layout as options of the programs that train with it: this book's, Megatron-LM, nanotron and
/// DeepSpeed.

#include <string>

#include "chapters/11_five_d/planner/layout/layout.hpp"

namespace ultra::planner {

/// @brief Flags of 11_five_d: "--dp 8 --zero 1 ...".
[[nodiscard]] std::string book_flags(const Workload& work, const Layout& layout);

/// @brief Options of Megatron-LM's pretrain scripts: "--tensor-model-parallel-size 8 ...".
///
/// What Megatron-LM does not have (zero-bubble schedules, ZeRO-2 and 3 beside pipelines) is left out,
/// and a comment says so.
/// Source: NVIDIA/Megatron-LM, megatron/training/arguments.py.
[[nodiscard]] std::string megatron_options(const Workload& work, const Layout& layout);

/// @brief The parts of a nanotron configuration that the layout decides, as YAML.
/// Source: huggingface/nanotron, src/nanotron/config/parallelism_config.py.
[[nodiscard]] std::string nanotron_config(const Workload& work, const Layout& layout);

/// @brief A DeepSpeed configuration, as JSON: batch sizes, ZeRO, offload, precision and
/// checkpointing; how matrices and stages are split is the program's, not the configuration's.
/// Source: deepspeed.ai, "DeepSpeed Configuration JSON".
[[nodiscard]] std::string deepspeed_config(const Workload& work, const Layout& layout);

}  // namespace ultra::planner
