#include "chapters/04_zero/checkpoints/training_state.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "chapters/04_zero/shards/own_shard.hpp"

namespace ultra::zero {
namespace {

/// Zeros: what pads a shard has no values in a checkpoint.
PieceValues make_values(const Device& host, std::size_t elements, DType dtype) {
  const auto values = [&] { return Tensor::zeros(host, {elements}, dtype); };
  return {.weights = values(), .moments = {.first = values(), .second = values()}};
}

Tensor flat(const Tensor& tensor) { return tensor.view({tensor.numel()}); }

bool is_first_copy(const OwnedPiece& piece) { return piece.parameter->copies().index == 0; }

/// Which rank takes each of the sizes: always the one that has least so far.
std::vector<int> balanced(std::span<const std::size_t> sizes, int ranks) {
  std::vector<std::size_t> loads(static_cast<std::size_t>(ranks), 0);
  std::vector<int> taken_by;
  for (const std::size_t size : sizes) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += size;
    taken_by.push_back(static_cast<int>(least - loads.begin()));
  }
  return taken_by;
}

/// All ranks' shards of flat arrays, on every rank.
void gather_whole(std::span<const Tensor> whole, const Communicator& shards) {
  for (const Tensor& array : whole) {
    shards.labeled("weights").all_gather(own_shard(array, shards), array);
  }
}

}  // namespace

PieceValues TrainingState::copy(std::size_t piece) const {
  const Tensor like = parts_.weights(piece);
  const Shape& shape = like.shape();
  const PieceValues copied = make_values(host_, shape.numel(), like.dtype());
  parts_.read_weights(piece, copied.weights);
  parts_.optimizer->moments().read(piece, {.first = copied.moments.first.view(shape),
                                           .second = copied.moments.second.view(shape)});
  return copied;
}

void TrainingState::load(
    int optimizer_steps,
    const std::function<void(std::size_t piece, const PieceValues& values)>& values) {
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < pieces().size(); ++i) weights.push_back(parts_.weights(i));
  parts_.optimizer->resume(optimizer_steps, weights);
  for (std::size_t i = 0; i < pieces().size(); ++i) {
    const PieceValues loaded = make_values(host_, weights[i].numel(), weights[i].dtype());
    values(i, loaded);
    parts_.write_weights(i, loaded.weights);
    const Shape& shape = weights[i].shape();
    parts_.optimizer->moments().write(i, {.first = loaded.moments.first.view(shape),
                                          .second = loaded.moments.second.view(shape)});
  }
  parts_.share();
}

std::vector<NamedShape> named_shapes(const nn::Model& model) {
  std::vector<NamedShape> named;
  for (const nn::Parameter* parameter : model.parameters()) {
    named.push_back({.name = parameter->name(), .shape = parameter->global_shape()});
  }
  return named;
}

TrainingState replicated_state(nn::Model& model, std::shared_ptr<optim::AdamW> optimizer,
                               const Communicator& replicas) {
  std::vector<OwnedPiece> pieces;
  std::vector<std::size_t> sizes;
  for (const nn::Parameter* parameter : model.parameters()) {
    pieces.push_back({.parameter = parameter, .elements = {0, parameter->count()}});
    sizes.push_back(parameter->count());
  }
  std::vector<bool> saves;
  for (const int rank : balanced(sizes, replicas.size())) {
    saves.push_back(rank == replicas.rank() && is_first_copy(pieces[saves.size()]));
  }
  return TrainingState(
      {.parameters = named_shapes(model),
       .pieces = std::move(pieces),
       .saves = std::move(saves),
       .read_weights =
           [&model](std::size_t i, const Tensor& out) {
             out.copy_from(flat(model.parameters()[i]->value()));
           },
       .write_weights =
           [&model](std::size_t i, const Tensor& in) {
             flat(model.parameters()[i]->value()).copy_from(in);
           },
       .weights = [&model](std::size_t i) { return model.parameters()[i]->value(); },
       .optimizer = std::move(optimizer),
       .share = [] {}});
}

TrainingState sharded_state(const nn::Model& model, ShardedModel& sharded,
                            std::shared_ptr<optim::AdamW> optimizer, const ShardGroups& ranks) {
  const bool first_shards = !ranks.replicas || ranks.replicas->rank() == 0;
  std::vector<bool> saves;
  for (const OwnedPiece& piece : sharded.pieces()) {
    saves.push_back(first_shards && is_first_copy(piece));
  }
  return TrainingState(
      {.parameters = named_shapes(model),
       .pieces = sharded.pieces(),
       .saves = std::move(saves),
       .read_weights = [&sharded](std::size_t i,
                                  const Tensor& out) { sharded.read_weights(i, out); },
       .write_weights = [&sharded](std::size_t i,
                                   const Tensor& in) { sharded.write_weights(i, in); },
       .weights = [&sharded](std::size_t i) { return sharded.weights(i); },
       .optimizer = std::move(optimizer),
       .share = [&sharded, shards = ranks.shards] { gather_whole(sharded.whole(), shards); }});
}

}  // namespace ultra::zero
