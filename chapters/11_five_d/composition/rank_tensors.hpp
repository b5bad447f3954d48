#pragma once
/// @file
/// RankTensor: the weights that a rank of any mesh has, as a list, before there is a model.
///
/// Legend: h hidden_size, f ffn_hidden_size, V vocab_size; t ranks of tp, of which kv hold the keys
/// of a rank's heads; E experts, F their width, S shared ones, N ranks of ep.
///
/// | part      | tensors of a rank, in this order                                               |
/// |-----------|--------------------------------------------------------------------------------|
/// | embedding | ceil(V / t) h                                                                  |
/// | block     | h; query h h / t, key and value h kv each, output h h / t; h; feed-forward     |
/// | dense     | gate, up and down: h f / t each                                                |
/// | experts   | router E h (and biases E); gates, ups and downs of E / N experts: h F / t each; |
/// |           | of the shared ones h S F / t each                                              |
/// | head      | h; ceil(V / t) h, unless the embedding's table is here and is tied             |

#include <cstddef>
#include <vector>

#include "common/nn/model.hpp"
#include "common/train/cli/technique.hpp"

namespace ultra::five_d {

/// @brief The ranks that add up a tensor's gradient and share its states.
enum class DataGroup {
  kAll,      ///< dp times cp
  kExperts,  ///< those of them that hold the same experts
  kOwn,      ///< nobody else: a bias of the selection
};

/// @brief A weight as a rank has it.
struct RankTensor {
  std::size_t count = 0;              ///< elements on the rank
  DataGroup group = DataGroup::kAll;  ///< whose
  std::size_t chunk = 0;              ///< of the rank's model
  std::size_t part = 0;               ///< of that chunk: embedding, block or head, from 0 on
  bool alone = false;                 ///< a tied table: no other tensor stands in a bucket with it
};

/// @brief The layers of each part of a training's model, in order; one part without a pipeline.
/// @throws ConfigError when they are measured, and not known before.
[[nodiscard]] std::vector<nn::StageSpec> parts_of(const train::Setup& setup);

/// @brief Those of them that the ranks of a stage have, in their order.
[[nodiscard]] std::vector<nn::StageSpec> chunks_of(const train::Setup& setup, std::size_t stage);

/// @brief What the ranks of a stage have, chunk by chunk, each in the order of its layers.
/// @param setup  all flags of a training, settled.
[[nodiscard]] std::vector<RankTensor> rank_tensors(const train::Setup& setup, std::size_t stage);

}  // namespace ultra::five_d
