#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"
#include <nlohmann/json.hpp>

#include "chapters/05_tensor_sequence_parallel/shapes/block_shapes_table.hpp"
#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::tensor_parallel {
namespace {

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
