#include "chapters/05_tensor_sequence_parallel/shapes/block_shapes.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"
#include "common/nn/model.hpp"

namespace ultra::tensor_parallel {
namespace {

/// A dimension of the model, and what a rank has of it where it is split.
struct Extent {
  std::size_t whole;
  std::size_t local;
  Placement placement;
  std::string words;
};

/// What the request says about every tensor and weight of a block.
class Expectation {
 public:
  explicit Expectation(const BlockShapesRequest& request)
      : model_(request.model), layout_(request.layout), batch_(request.batch) {}

  /// The row's tensor. Gradients are laid out as what they are gradients of.
  [[nodiscard]] PlacedTensor tensor(const RecordedStep& step, const RecordedTensor& found) const {
    return placed(step, found.name, found.shape, tensor_extents(step, without_d(found.name)));
  }

  [[nodiscard]] PlacedTensor weight(const RecordedStep& step, const RecordedWeight& found) const {
    PlacedTensor result =
        placed(step, found.name, found.shard, weight_extents(step, without_d(found.name)));
    if (result.split) {
      result.words = (*result.split == 0 ? "rows " : "columns ") + result.words;
    }
    // A factory may count the padding of a vocabulary as part of the whole weight.
    Shape padded = result.whole;
    if (result.placement == Placement::kVocabulary) {
      padded = padded.with(0, layout_.ranks() * result.local[0]);
    }
    if (found.whole != result.whole && found.whole != padded) {
      refuse(step, "the whole of " + found.name, found.whole, result.whole);
    }
    return result;
  }

 private:
  // Extents -----------------------------------------------------------------------------------

  /// An extent that all ranks have.
  [[nodiscard]] static Extent whole(std::size_t extent) {
    return {extent, extent, Placement::kWhole, "whole"};
  }

  /// An extent of which a rank has `local`; whole on a single rank.
  [[nodiscard]] Extent split(std::size_t extent, std::size_t local, Placement placement,
                             std::string words) const {
    if (layout_.ranks() == 1) return whole(extent);
    return {extent, local, placement, std::move(words)};
  }

  [[nodiscard]] Extent batch() const { return whole(batch_.size); }
  [[nodiscard]] Extent sequence() const { return whole(batch_.seq_len); }
  [[nodiscard]] Extent hidden() const { return whole(model_.hidden_size); }
  [[nodiscard]] Extent head_dim() const { return whole(model_.head_dim()); }

  /// The sequence between the matrices.
  [[nodiscard]] Extent sequence_between() const {
    if (!layout_.splits_sequences()) return sequence();
    return split(batch_.seq_len, layout_.local_seq_len(batch_.seq_len), Placement::kSequence,
                 "split along the sequence: s/t");
  }

  /// Query heads: their number (one element each), or their width together.
  [[nodiscard]] Extent heads(std::size_t width) const {
    return split(model_.num_heads * width, layout_.local_heads(model_.num_heads) * width,
                 Placement::kHeads, fmt::format("split by heads: {}/t", width == 1 ? "a" : "h"));
  }

  /// Key/value heads: their number, or their width together. A single one is on every rank.
  [[nodiscard]] Extent kv_heads(std::size_t width) const {
    if (model_.num_kv_heads == 1) return whole(width);
    const std::size_t copies = layout_.kv_copies(model_.num_kv_heads);
    return split(model_.num_kv_heads * width, layout_.local_kv_heads(model_.num_kv_heads) * width,
                 Placement::kHeads,
                 copies == 1 ? fmt::format("split by heads: {}/t", width == 1 ? "k" : "kv")
                             : fmt::format("by heads: one of k, each on {} ranks", copies));
  }

  [[nodiscard]] Extent ffn() const {
    return split(model_.ffn_hidden_size, model_.ffn_hidden_size / layout_.ranks(), Placement::kFfn,
                 "split by ffn: f/t");
  }

  [[nodiscard]] Extent vocabulary() const {
    const bool even = model_.vocab_size % layout_.ranks() == 0;
    return split(model_.vocab_size, layout_.local_vocab_size(model_.vocab_size),
                 Placement::kVocabulary,
                 even ? "split by vocabulary: V/t" : "split by vocabulary: V/t, padded");
  }

  // Tensors -----------------------------------------------------------------------------------

  [[nodiscard]] std::vector<Extent> tensor_extents(const RecordedStep& step,
                                                   std::string_view name) const {
    if (name == "tokens" || name == "targets") return {batch(), sequence()};
    if (name == "logits") return {batch(), sequence(), vocabulary()};
    if (step.kind == PartKind::kAttentionCore) {
      const bool of_queries = name == "query" || name == "output";
      return {batch(), sequence(), of_queries ? heads(1) : kv_heads(1), head_dim()};
    }
    const std::size_t width = model_.head_dim();
    if (name == "query") return {batch(), sequence(), heads(width)};
    if (name == "key" || name == "value") return {batch(), sequence(), kv_heads(width)};
    if (name == "gate" || name == "up") return {batch(), sequence(), ffn()};
    if (step.kind == PartKind::kRowLinear && name == "input") {
      return {batch(), sequence(), step.name == "o_proj" ? heads(width) : ffn()};
    }
    if (name == "input" || name == "output") return {batch(), sequence_between(), hidden()};
    throw unknown(step, name);
  }

  [[nodiscard]] std::vector<Extent> weight_extents(const RecordedStep& step,
                                                   std::string_view name) const {
    const std::size_t width = model_.head_dim();
    if (step.kind == PartKind::kNorm) return {hidden()};
    if (name == "embed_tokens" || name == "lm_head") return {vocabulary(), hidden()};
    if (name == "q_proj") return {heads(width), hidden()};
    if (name == "k_proj" || name == "v_proj") return {kv_heads(width), hidden()};
    if (name == "o_proj") return {hidden(), heads(width)};
    if (name == "gate_proj" || name == "up_proj") return {ffn(), hidden()};
    if (name == "down_proj") return {hidden(), ffn()};
    throw unknown(step, name);
  }

  // Comparison --------------------------------------------------------------------------------

  [[nodiscard]] static std::string_view without_d(std::string_view name) {
    if (name.starts_with("d_")) name.remove_prefix(2);
    return name;
  }

  /// Holds what was found against what a rank should have.
  [[nodiscard]] PlacedTensor placed(const RecordedStep& step, const std::string& name,
                                    const Shape& found, const std::vector<Extent>& extents) const {
    std::vector<std::size_t> local;
    std::vector<std::size_t> all;
    PlacedTensor result{.name = name,
                        .local = found,
                        .whole = {},
                        .placement = Placement::kWhole,
                        .words = "whole"};
    for (const Extent& extent : extents) {
      if (extent.placement != Placement::kWhole) {
        result.placement = extent.placement;
        result.split = static_cast<int>(local.size());
        result.words = extent.words;
      }
      local.push_back(extent.local);
      all.push_back(extent.whole);
    }
    result.whole = Shape(all);
    if (found != Shape(local)) refuse(step, name, found, Shape(local));
    return result;
  }

  [[nodiscard]] std::string place_of(const RecordedStep& step) const {
    return fmt::format("{}{}, {} pass", step.name,
                       step.layer ? fmt::format(" of block {}", *step.layer) : "",
                       step.pass == Pass::kForward ? "forward" : "backward");
  }

  [[nodiscard]] InternalError unknown(const RecordedStep& step, std::string_view name) const {
    return InternalError(fmt::format("{}: no shape is known for {}", place_of(step), name));
  }

  [[noreturn]] void refuse(const RecordedStep& step, const std::string& name, const Shape& found,
                           const Shape& expected) const {
    throw InternalError(fmt::format(
        "{}: {} is {}, but tp {} with sequence parallelism {} makes it {}", place_of(step), name,
        found.str(), layout_.tp, layout_.splits_sequences() ? "on" : "off", expected.str()));
  }

  nn::ModelConfig model_;
  TensorParallelLayout layout_;
  memory::BatchShape batch_;
};

BlockRegion region_of(const RecordedStep& step) {
  const bool forward = step.pass == Pass::kForward;
  switch (step.kind) {
    case PartKind::kColumnLinear:
      return forward ? BlockRegion::kEnter : BlockRegion::kExit;
    case PartKind::kRowLinear:
    case PartKind::kEmbedding:  // its table is split by rows, as a matrix's input would be
      return forward ? BlockRegion::kExit : BlockRegion::kEnter;
    case PartKind::kAttentionCore:
    case PartKind::kLoss:
      return BlockRegion::kInside;
    case PartKind::kNorm:
      break;
  }
  return BlockRegion::kBetween;
}

}  // namespace

void BlockShapesRequest::validate() const {
  nn::ModelConfig with_batch = model;
  with_batch.max_seq_len = batch.seq_len;
  layout.validate(with_batch);
  if (batch.size == 0) throw ConfigError("--micro-batch is 0. It must be at least 1.");
}

std::vector<BlockShapeRow> block_shapes(const BlockShapesRequest& request,
                                        std::span<const RecordedStep> steps) {
  request.validate();
  const Expectation expectation(request);
  std::vector<BlockShapeRow> rows;
  for (const RecordedStep& step : steps) {
    BlockShapeRow row{.pass = step.pass,
                      .layer = step.layer,
                      .step = step.name,
                      .region = region_of(step),
                      .inputs = {},
                      .outputs = {},
                      .weights = {}};
    for (const auto& tensor : step.inputs) row.inputs.push_back(expectation.tensor(step, tensor));
    for (const auto& tensor : step.outputs) row.outputs.push_back(expectation.tensor(step, tensor));
    for (const auto& weight : step.weights) row.weights.push_back(expectation.weight(step, weight));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<BlockShapeRow> run_block(const BlockShapesRequest& request, nn::LayerFactory& inner,
                                     const Device& device) {
  request.validate();
  nn::ModelConfig config = request.model;
  config.num_layers = 1;
  config.max_seq_len = request.batch.seq_len;
  ShapeRecorder recorder(inner);
  nn::Model model(config, device, DType::kF32, 0, recorder);
  const Shape shape = {request.batch.size, request.batch.seq_len};
  const Tensor zeros = Tensor::zeros(device, shape, DType::kI32);
  nn::Saved saved;
  const Tensor logits = model.forward(zeros, saved);
  static_cast<void>(model.loss(logits, zeros, static_cast<double>(request.batch.tokens()), saved));
  model.backward(saved);
  return block_shapes(request, recorder.steps());
}

}  // namespace ultra::tensor_parallel
