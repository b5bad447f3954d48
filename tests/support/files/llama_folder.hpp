#pragma once
/// @file
/// Folders of Llama models as other programs write them, with random weights.

#include <cstddef>
#include <string>
#include <vector>

#include "common/checkpoint/safetensors/stored_type.hpp"
#include "common/nn/model_config.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief How a folder of a model is to be.
struct LlamaFolderSpec {
  nn::ModelConfig model;
  checkpoint::StoredType type = checkpoint::StoredType::kF32;
  std::size_t files = 1;  ///< with an index when more than one
};

/// @brief The weights of a folder, by parameter in the model's order; exact in every type.
using LlamaWeights = std::vector<std::vector<double>>;

/// @brief Draws weights and writes them, with a config.json, into a folder.
/// @param name  of the folder inside of `parent`.
LlamaWeights write_llama_folder(const TemporaryFolder& parent, const std::string& name,
                                const LlamaFolderSpec& spec, Random& random);

/// @brief An element of a type, as its little-endian bytes. The type must hold it exactly.
[[nodiscard]] std::string stored_bytes(double value, checkpoint::StoredType type);

}  // namespace ultra::test
