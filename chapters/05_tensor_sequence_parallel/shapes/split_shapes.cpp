#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"

#include <fmt/format.h>

#include "chapters/05_tensor_sequence_parallel/shapes/block_shapes_table.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/options/comm_options.hpp"

namespace ultra::tensor_parallel {
namespace {

/// Of memory: a machine may have less, but no figure of the book needs more.
constexpr double kMostBytes = 64e9;

/// Weights and gradients of a block, of the embedding and of the head, and their activations.
double bytes_of(const nn::ModelConfig& model, const memory::MicroBatch& batch) {
  const auto real = [](std::size_t value) { return static_cast<double>(value); };
  const double hidden = real(model.hidden_size);
  const double ffn = real(model.ffn_hidden_size);
  const double vocab = real(model.vocab_size);
  const double weights = hidden * (4.0 * hidden + 3.0 * ffn + 2.0 * vocab);
  const double activations =
      real(batch.size) * real(batch.seq_len) * (8.0 * hidden + 4.0 * ffn + 2.0 * vocab);
  return 4.0 * (2.0 * weights + activations);
}

/// A block is run for its shapes: with numbers, on ranks.
void expect_runnable(const BlockShapesRequest& request) {
  const auto ranks = checked_cast<std::size_t>(request.layout.tp);
  train::expect_thread_ranks(ranks, fmt::format("--shapes runs a block on --tp {} ranks", ranks));
  const double bytes = bytes_of(request.model, request.batch);
  if (bytes <= kMostBytes) return;
  throw ConfigError(fmt::format(
      "--shapes runs a block of the model, which takes about {:.2g} GB, more than {:g}. Choose "
      "smaller --hidden, --ffn, --seq or --micro-batch.",
      bytes / 1e9, kMostBytes / 1e9));
}

LayoutRows rows_of(const BlockShapesRequest& request) {
  return {.layout = request.layout, .rows = run_split_block(request)};
}

/// One device, tensor parallelism, and both kinds: those that the layout is made of.
std::string compare(BlockShapesRequest request) {
  const TensorParallelLayout last = request.layout;
  std::vector<LayoutRows> layouts;
  request.layout = {};
  layouts.push_back(rows_of(request));
  if (last.tp > 1) {
    request.layout = {.tp = last.tp};
    layouts.push_back(rows_of(request));
  }
  if (last.splits_sequences()) {
    request.layout = last;
    layouts.push_back(rows_of(request));
  }
  return format_comparison(layouts);
}

}  // namespace

std::vector<BlockShapeRow> run_split_block(const BlockShapesRequest& request) {
  request.validate();
  expect_runnable(request);
  std::vector<BlockShapeRow> rows;
  run_ranks(request.layout.tp, [&](Communicator& tp) {
    nn::DenseFactory dense;
    TensorParallelFactory split(dense, tp, request.layout.sequence_parallel,
                                TensorOverlap::kBackward);
    nn::LayerFactory& inner = request.layout.tp > 1 ? static_cast<nn::LayerFactory&>(split) : dense;
    std::vector<BlockShapeRow> own = run_block(request, inner, Device::cpu());
    if (tp.rank() == 0) rows = std::move(own);
  });
  return rows;
}

std::string describe_shapes(Shapes shapes, const nn::ModelConfig& model,
                            const memory::MicroBatch& batch, const TensorParallelLayout& layout) {
  const BlockShapesRequest request{.model = model, .layout = layout, .batch = batch};
  if (shapes == Shapes::kCompare) return compare(request);
  const std::vector<BlockShapeRow> rows = run_split_block(request);
  if (shapes == Shapes::kJson) return block_shapes_to_json(rows).dump(2) + "\n";
  return format_block_shapes(request, rows);
}

}  // namespace ultra::tensor_parallel
