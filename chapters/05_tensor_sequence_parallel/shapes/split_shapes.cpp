#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/options/comm_options.hpp"

namespace ultra::tensor_parallel {
namespace {

std::string_view to_string(Pass pass) { return pass == Pass::kForward ? "forward" : "backward"; }

// Lines -------------------------------------------------------------------------------------------

/// The cells of a line; none for an empty line.
using Line = std::vector<std::string>;

/// The lines below each other, each column as wide as its widest cell.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths;
  for (const Line& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      fmt::format_to(std::back_inserter(row), "  {:<{}}", line[i], widths[i]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

std::string heading(const BlockShapesRequest& request) {
  const nn::ModelConfig& m = request.model;
  return fmt::format(
      "Shapes on each of t = {} rank{}, {} sequence parallelism\n"
      "b = {} sequence{}, s = {} tokens, h = {} hidden, a = {} heads of {}, k = {} key/value "
      "heads\n"
      "(together kv = {}), f = {} ffn, V = {} vocabulary\n",
      request.layout.tp, request.layout.tp == 1 ? "" : "s",
      request.layout.splits_sequences() ? "with" : "without", request.batch.size,
      request.batch.size == 1 ? "" : "s", request.batch.seq_len, m.hidden_size, m.num_heads,
      m.head_dim(), m.num_kv_heads, m.kv_hidden_size(), m.ffn_hidden_size, m.vocab_size);
}

/// A line for each tensor; step and region on the first one only.
void add_row(std::vector<Line>& lines, const BlockShapeRow& row) {
  std::string step = row.step;
  std::string region{to_string(row.region)};
  const auto add = [&](const char* role, const std::vector<PlacedTensor>& tensors) {
    for (const PlacedTensor& tensor : tensors) {
      lines.push_back(
          {step, region, role, tensor.name, tensor.local.str(), tensor.whole.str(), tensor.words});
      step.clear();
      region.clear();
    }
  };
  add("in", row.inputs);
  add("weight", row.weights);
  add("out", row.outputs);
}

// Comparison --------------------------------------------------------------------------------------

/// "split by heads: h/t" -> "h/t".
std::string symbol(const PlacedTensor& tensor) {
  const std::size_t colon = tensor.words.find(": ");
  return colon == std::string::npos ? tensor.words : tensor.words.substr(colon + 2);
}

/// "s/t -> h/t"; the loss has no output.
std::string way_of(const BlockShapeRow& row) {
  std::string way = row.inputs.empty() ? "" : symbol(row.inputs.front());
  if (!row.outputs.empty()) way += " -> " + symbol(row.outputs.front());
  return way;
}

// JSON --------------------------------------------------------------------------------------------

Json dims_to_json(const Shape& shape) {
  return std::vector<std::size_t>(shape.dims().begin(), shape.dims().end());
}

Json tensors_to_json(const std::vector<PlacedTensor>& tensors) {
  Json json = Json::array();
  for (const PlacedTensor& tensor : tensors) {
    json.push_back({{"name", tensor.name},
                    {"local", dims_to_json(tensor.local)},
                    {"whole", dims_to_json(tensor.whole)},
                    {"placement", to_string(tensor.placement)},
                    {"split", tensor.split},
                    {"words", tensor.words}});
  }
  return json;
}

}  // namespace

std::string_view to_string(BlockRegion region) {
  switch (region) {
    case BlockRegion::kEnter:
      return "enter TP";
    case BlockRegion::kInside:
      return "TP region";
    case BlockRegion::kExit:
      return "exit TP";
    case BlockRegion::kBetween:
      return "SP region";
  }
  return "?";
}

std::string_view to_string(Placement placement) {
  switch (placement) {
    case Placement::kWhole:
      return "whole";
    case Placement::kHeads:
      return "heads";
    case Placement::kFfn:
      return "ffn";
    case Placement::kVocabulary:
      return "vocabulary";
    case Placement::kSequence:
      return "sequence";
  }
  return "?";
}

std::string format_block_shapes(const BlockShapesRequest& request,
                                std::span<const BlockShapeRow> rows) {
  std::vector<Line> lines;
  std::optional<Pass> pass;
  for (const BlockShapeRow& row : rows) {
    if (row.pass != pass) {
      lines.push_back({});
      lines.push_back({std::string(to_string(row.pass)), "region", "", "tensor", "on a rank",
                       "whole", "place"});
      pass = row.pass;
    }
    add_row(lines, row);
  }
  return heading(request) + aligned(lines);
}

std::string format_comparison(std::span<const LayoutRows> layouts) {
  ensure(!layouts.empty(), "layouts to compare");
  std::vector<Line> lines = {{"forward", "region"}};
  for (const LayoutRows& column : layouts) {
    lines.front().push_back(fmt::format("tp {}{}", column.layout.tp,
                                        column.layout.splits_sequences() ? " with SP" : ""));
    ensure(column.rows.size() == layouts.front().rows.size(), "the same steps in each layout");
  }
  for (std::size_t i = 0; i < layouts.front().rows.size(); ++i) {
    const BlockShapeRow& row = layouts.front().rows[i];
    if (row.pass != Pass::kForward) continue;
    Line line = {row.step, std::string(to_string(row.region))};
    for (const LayoutRows& column : layouts) {
      ensure(column.rows[i].step == row.step, "the same step in each layout");
      line.push_back(way_of(column.rows[i]));
    }
    lines.push_back(std::move(line));
  }
  return aligned(lines);
}

Json block_shapes_to_json(std::span<const BlockShapeRow> rows) {
  Json json = Json::array();
  for (const BlockShapeRow& row : rows) {
    json.push_back({{"pass", to_string(row.pass)},
                    {"layer", row.layer},
                    {"step", row.step},
                    {"region", to_string(row.region)},
                    {"inputs", tensors_to_json(row.inputs)},
                    {"outputs", tensors_to_json(row.outputs)},
                    {"weights", tensors_to_json(row.weights)}});
  }
  return json;
}

namespace {

/// Of memory: a machine may have less, but no figure of the book needs more.
constexpr double kMostBytes = 64e9;

/// Weights and gradients of a block, of the embedding and of the head, and their activations.
double bytes_of(const nn::ModelConfig& model, const memory::BatchShape& batch) {
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
                            const memory::BatchShape& batch, const TensorParallelLayout& layout) {
  const BlockShapesRequest request{.model = model, .layout = layout, .batch = batch};
  if (shapes == Shapes::kCompare) return compare(request);
  const std::vector<BlockShapeRow> rows = run_split_block(request);
  if (shapes == Shapes::kJson) return block_shapes_to_json(rows).dump(2) + "\n";
  return format_block_shapes(request, rows);
}

}  // namespace ultra::tensor_parallel
