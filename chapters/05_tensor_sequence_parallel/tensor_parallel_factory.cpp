#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"

#include <utility>

#include "chapters/05_tensor_sequence_parallel/column_parallel.hpp"
#include "chapters/05_tensor_sequence_parallel/ring_layers.hpp"
#include "chapters/05_tensor_sequence_parallel/row_parallel.hpp"
#include "chapters/05_tensor_sequence_parallel/vocabulary_parallel.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layers/embedding_layer.hpp"
#include "common/nn/layers/linear.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::tensor_parallel {
namespace {

using ops::as_matrix;
using ops::Transpose;

/// x op(weight), in rows like those of x, unrounded.
Tensor product(const Tensor& x, const nn::Parameter& weight, Transpose transpose) {
  const Tensor y = ops::matmul(as_matrix(x), Transpose::kNo, weight.value(), transpose,
                               accumulation_dtype(x.dtype()));
  return y.view(x.shape().with(-1, y.size(1)));
}

/// ColumnParallelProjections of numbers of two bytes whose ranks add up unrounded parts.
///
/// Each rank's product is summed in f32. ColumnParallelProjections and RowParallelLinear round it to two
/// bytes before it travels: half the bytes, and as many roundings as there are ranks. Here it travels in
/// f32, and the sum is rounded once, as on one rank: what `--sums tree` needs for the same bits.
class UnroundedColumnParallel : public ColumnParallelProjections {
 public:
  using ColumnParallelProjections::ColumnParallelProjections;

  Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override {
    const Tensor own = saved.take("input");
    Pending entering = region_->enter(own);
    Tensor part;
    for (std::size_t i = weights_.size(); i-- > 0;) {
      if (part.defined()) {
        ops::matmul_into(as_matrix(part), as_matrix(d_y[i]), Transpose::kNo, weights_[i]->value(),
                         Transpose::kNo, ops::Write::kAccumulate);
      } else {
        part = product(d_y[i], *weights_[i], Transpose::kNo);
      }
    }
    const Tensor x = entering.wait();
    Pending d_x = region_->enter_backward(part);
    for (std::size_t i = weights_.size(); i-- > 0;) nn::add_matmul_grad(*weights_[i], d_y[i], x);
    return cast(d_x.wait(), own.dtype());
  }
};

/// Likewise RowParallelLinear, without a bias.
class UnroundedRowParallel : public RowParallelLinear {
 public:
  UnroundedRowParallel(std::unique_ptr<nn::Parameter> weight, std::shared_ptr<Region> region)
      : RowParallelLinear(std::move(weight), nullptr, std::move(region)) {}

  Tensor forward(const Tensor& x, nn::Saved& saved) override {
    saved.put("input", x);
    const Tensor part = product(x, *weight_, Transpose::kYes);
    return cast(region_->leave(part).wait(), x.dtype());
  }
};

std::unique_ptr<nn::Parameter> make_parameter(const nn::BuildContext& context,
                                              nn::ParameterSpec spec) {
  return std::make_unique<nn::Parameter>(std::move(spec), context.device, context.precision,
                                         context.seed, context.values);
}

/// Whether what ranks add up must not be rounded before: then one rank's sum is theirs.
bool adds_unrounded(const nn::BuildContext& context) {
  return is_half(context.precision.compute) && ops::sums_by_trees(context.device);
}

/// This rank's rows of a matrix, with as many rows on every rank.
nn::ParameterSpec shard_of_rows(nn::ParameterSpec whole, const TensorParallelLayout& layout,
                                int rank) {
  const std::size_t rows = whole.global_shape[0];
  const Range own = layout.local_rows(rows, rank);
  whole.shard = {own, {0, whole.global_shape[1]}};
  whole.padding = layout.local_rows(rows, 0).size() - own.size();  // rank 0 has most
  return whole;
}

/// What heads share: it gets into the region of split matrices without one.
class SharedByHeads : public nn::Layer {
 public:
  explicit SharedByHeads(std::shared_ptr<Region> region) : region_(std::move(region)) {}

  Tensor forward(const Tensor& x, nn::Saved&) override { return region_->enter(x).wait(); }
  Tensor backward(const Tensor& d_y, nn::Saved&) override {
    return region_->enter_backward(d_y).wait();
  }

 private:
  std::shared_ptr<Region> region_;
};

}  // namespace

nn::Replication column_replication(const nn::LinearSpec& spec, const TensorParallelLayout& layout,
                                   int rank) {
  if (spec.output_heads == 0) return {.group = std::string(kHeadGroup)};
  const auto size = checked_cast<int>(layout.kv_copies(spec.output_heads));
  return {.group = std::string(kHeadGroup),
          .size = size,
          .index = rank % size,
          .gradients = nn::CopyGradients::kPartial};
}

// [region shards]
nn::ParameterSpec column_shard(const nn::LinearSpec& spec, const TensorParallelLayout& layout,
                               int rank) {
  nn::ParameterSpec whole = nn::weight_spec(spec);
  if (spec.output_heads == 0 || spec.output_heads % layout.ranks() == 0) {
    return shard_of_rows(std::move(whole), layout, rank);
  }
  // Fewer heads than ranks: neighbours hold the same one.
  const std::size_t rows = spec.out_features / spec.output_heads;
  const std::size_t head = static_cast<std::size_t>(rank) / layout.kv_copies(spec.output_heads);
  whole.shard = {{head * rows, (head + 1) * rows}, {0, spec.in_features}};
  return whole;
}

nn::ParameterSpec row_shard(const nn::LinearSpec& spec, const TensorParallelLayout& layout,
                            int rank) {
  nn::ParameterSpec whole = nn::weight_spec(spec);
  ensure(spec.in_features % layout.ranks() == 0, "the inputs divide");
  const std::size_t part = spec.in_features / layout.ranks();
  const std::size_t begin = static_cast<std::size_t>(rank) * part;
  whole.shard = {{0, spec.out_features}, {begin, begin + part}};
  return whole;
}
// [/region]

TensorParallelFactory::TensorParallelFactory(nn::LayerFactory& inner, Communicator tp,
                                             SequenceParallel sequence_parallel,
                                             TensorOverlap overlap)
    : FactoryWrapper(inner),
      tp_(std::move(tp)),
      layout_{.tp = tp_.size(), .sequence_parallel = sequence_parallel},
      overlap_(overlap),
      region_(make_region(tp_, sequence_parallel)) {
  ensure(overlap != TensorOverlap::kRing || sequence_parallel == SequenceParallel::kOn,
         "rings carry the chunks of sequence parallelism");
  if (overlap == TensorOverlap::kNone) region_ = std::make_shared<WaitingRegion>(region_);
}

std::unique_ptr<nn::Layer> TensorParallelFactory::norm(const nn::BuildContext& context,
                                                       const nn::NormSpec& spec) {
  std::unique_ptr<nn::Layer> norm = inner().norm(context, spec);
  // A rank has some tokens, or some heads: its part of the gradient is what those give.
  const bool partial = layout_.splits_sequences() || spec.over == nn::NormOver::kHeads;
  keep_whole(norm->parameters(), partial);
  return norm;
}

void TensorParallelFactory::keep_whole(const std::vector<nn::Parameter*>& parameters,
                                       bool partial) const {
  for (nn::Parameter* parameter : parameters) {
    parameter->replicate(
        {.group = std::string(kTensorGroup),
         .size = tp_.size(),
         .index = tp_.rank(),
         .gradients = partial ? nn::CopyGradients::kPartial : nn::CopyGradients::kEqual});
  }
}

// [region latents]
std::unique_ptr<nn::Projections> TensorParallelFactory::token_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  std::unique_ptr<nn::Projections> maps = inner().token_linear(context, specs);
  keep_whole(maps->parameters(), layout_.splits_sequences());
  return maps;
}

std::unique_ptr<nn::Layer> TensorParallelFactory::shared_by_heads(
    const nn::BuildContext& /*context*/) {
  return std::make_unique<SharedByHeads>(region_);
}
// [/region]

std::unique_ptr<nn::Projections> TensorParallelFactory::column_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  std::vector<std::unique_ptr<nn::Parameter>> weights;
  for (const nn::LinearSpec& spec : specs) {
    weights.push_back(make_parameter(context, column_shard(spec, layout_, tp_.rank())));
    weights.back()->replicate(column_replication(spec, layout_, tp_.rank()));
  }
  if (overlap_ == TensorOverlap::kRing) {
    return std::make_unique<RingColumnParallel>(std::move(weights), tp_);
  }
  if (adds_unrounded(context)) {
    return std::make_unique<UnroundedColumnParallel>(std::move(weights), region_);
  }
  return std::make_unique<ColumnParallelProjections>(std::move(weights), region_);
}

std::unique_ptr<nn::Layer> TensorParallelFactory::row_linear(const nn::BuildContext& context,
                                                             const nn::LinearSpec& spec) {
  auto weight = make_parameter(context, row_shard(spec, layout_, tp_.rank()));
  if (overlap_ == TensorOverlap::kRing) {
    return std::make_unique<RingRowParallel>(std::move(weight), tp_);
  }
  if (adds_unrounded(context)) {
    return std::make_unique<UnroundedRowParallel>(std::move(weight), region_);
  }
  return std::make_unique<RowParallelLinear>(std::move(weight), nullptr, region_);
}

std::unique_ptr<nn::TokenEmbedding> TensorParallelFactory::embedding(
    const nn::BuildContext& context) {
  const std::size_t vocab_size = context.config.vocab_size;
  nn::ParameterSpec whole = nn::embedding_spec(context.config);
  return std::make_unique<VocabularyParallelEmbedding>(
      vocab_size, make_parameter(context, shard_of_rows(std::move(whole), layout_, tp_.rank())),
      region_);
}

std::unique_ptr<nn::Projections> TensorParallelFactory::tied_head(const nn::BuildContext& context,
                                                                  nn::Parameter& table) {
  // The rows of a rank's tokens are its columns of the output matrix: the same shard.
  if (overlap_ == TensorOverlap::kRing) return std::make_unique<RingColumnParallel>(table, tp_);
  if (adds_unrounded(context)) {
    return std::make_unique<UnroundedColumnParallel>(table, region_);
  }
  return std::make_unique<ColumnParallelProjections>(table, region_);
}

std::unique_ptr<nn::LossLayer> TensorParallelFactory::loss(const nn::BuildContext& context) {
  return std::make_unique<VocabularyParallelLoss>(context.config.vocab_size, tp_);
}

}  // namespace ultra::tensor_parallel
