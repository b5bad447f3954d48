#pragma once
/// @file
/// A saved model with its weights in two bytes: what other programs load to run it.

#include <cstddef>
#include <filesystem>

#include "common/checkpoint/files/file_layer.hpp"
#include "common/tensor/dtype.hpp"

namespace ultra::mixed_precision {

/// @brief What an export has written.
struct ExportedWeights {
  std::filesystem::path from;  ///< the model's folder
  std::size_t tensors = 0;     ///< in model.safetensors
  std::size_t bytes = 0;       ///< of that file
};

/// @brief Writes a saved model into a new folder, each weight rounded to the nearest of `dtype`.
///
/// The folder has config.json with that torch_dtype, model.safetensors, and the tokenizer's files if
/// they are there. It appears in one step when all of it is on the disk. Histories of fp8's scales
/// are left out: they belong to the training.
/// @param from   a model's folder, or one with checkpoints: the newest one.
/// @param to     does not exist yet.
/// @param dtype  kBF16 or kF16.
/// @throws ConfigError when `to` exists; FileError when there is no model, it is damaged, its mixture
/// of experts is none that config.json has a name for, or the disk fails.
/// Memory: one weight twice.
/// Source: Hugging Face transformers, PreTrainedModel.from_pretrained.
ExportedWeights export_half_weights(checkpoint::FileLayer& files, const std::filesystem::path& from,
                                    const std::filesystem::path& to, DType dtype);

}  // namespace ultra::mixed_precision
