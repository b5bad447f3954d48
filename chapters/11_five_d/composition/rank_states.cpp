#include "chapters/11_five_d/composition/rank_states.hpp"

#include <vector>

#include "chapters/04_zero/zero.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "chapters/11_five_d/composition/flat_arrays.hpp"
#include "chapters/11_five_d/composition/mesh_place.hpp"
#include "chapters/11_five_d/composition/rank_tensors.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/rules.hpp"

namespace ultra::five_d {
namespace {

/// The number of a rank among those that share the states of a data group.
int shard_of(const train::Setup& setup, const MeshPlace& place, DataGroup group) {
  const std::size_t data_rank =
      place.replica * setup.ranks_along(context_parallel::kAxis) + place.context;
  const std::size_t ep =
      group == DataGroup::kExperts ? setup.ranks_along(expert_parallel::kAxis) : 1;
  return checked_cast<int>(data_rank / ep % sharing_of(setup, group).shards);
}

/// Elements of one data group; of the optimizer those that it updates.
memory::StateBytes group_elements(const train::Setup& setup, const std::vector<FlatArray>& arrays,
                                  int shard) {
  const zero::ZeroStage stage = zero::zero_of(setup).options().stage;
  memory::StateBytes elements;
  for (const auto& [layout, chunk, part] : arrays) {
    elements.parameters += zero::shards_parameters(stage) ? layout.shard : layout.padded;
    elements.gradients += zero::shards_gradients(stage) ? layout.shard : layout.padded;
    for (const zero::Piece& piece : zero::pieces_of(layout, shard)) {
      elements.optimizer += piece.place.size();
    }
  }
  return elements;
}

}  // namespace

memory::StateBytes state_bytes(const train::Setup& setup, std::size_t rank) {
  const MeshPlace place = place_of(setup, rank);
  const std::vector<RankTensor> tensors = rank_tensors(setup, place.stage);
  memory::StateBytes elements;
  for (const DataGroup group : {DataGroup::kAll, DataGroup::kExperts}) {
    const memory::StateBytes more =
        group_elements(setup, flat_arrays(setup, tensors, group), shard_of(setup, place, group));
    elements.parameters += more.parameters;
    elements.gradients += more.gradients;
    elements.optimizer += more.optimizer;
  }
  for (const RankTensor& tensor : tensors) {
    if (tensor.group != DataGroup::kOwn) continue;  // nobody shares these
    elements.parameters += tensor.count;
    elements.gradients += tensor.count;
    elements.optimizer += tensor.count;
  }
  const std::size_t width = size_of(setup.train.dtype);
  return {
      .parameters = elements.parameters * width,
      .gradients = elements.gradients * width,
      .optimizer = optim::states_per_weight(setup.train.optimizer) * elements.optimizer * width};
}

}  // namespace ultra::five_d
