#include "common/ops/partial_softmax.hpp"

#include "common/ops/backend/cpu/tree/tree_rows.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::ops {
namespace {

using gpu::launch;
using gpu::source;
using gpu::target;

bool on_host_by_trees(const Tensor& logits) {
  return !has_streams(logits.device().kind()) && sums_by_trees(logits.device());
}

kernels::generic::PartOfLogits rows_of(const LogitsOfPart& part) {
  return {.rows = part.targets.numel(),
          .columns = part.logits.size(-1),
          .vocab = part.vocabulary.size(),
          .first_token = part.vocabulary.begin,
          .logits = target(part.logits),
          .targets = gpu::integers(part.targets),
          .leaf = gpu::leaf_of(part.logits.device(), part.vocabulary.size())};
}

}  // namespace

Tensor highest_logits(const LogitsOfPart& part) {
  const Tensor& logits = part.logits;
  if (on_host_by_trees(logits)) return cpu::tree_highest_logits(part);
  Tensor highest = Tensor::empty(logits.device(), {part.targets.numel()}, logits.dtype());
  const auto launched = launch("highest_logits", {logits}, {highest});
  launched.kernels().highest_of_rows(rows_of(part), target(highest), launched.queue());
  return highest;
}

Tensor exponentials_of_logits(const LogitsOfPart& part, const Tensor& highest) {
  const Tensor& logits = part.logits;
  if (on_host_by_trees(logits)) return cpu::tree_exponentials_of_logits(part, highest);
  Tensor sums = Tensor::empty(logits.device(), {2, part.targets.numel()}, logits.dtype());
  const auto launched =
      launch("exponentials_of_logits", {logits, part.targets, highest}, {logits, sums});
  launched.kernels().exponentials_of_rows(rows_of(part), source(highest), target(sums),
                                          launched.queue());
  return sums;
}

void cross_entropy_of_parts(const Tensor& loss, const LogitsOfPart& part, const Tensor& highest,
                            const Tensor& sums, double normalizer, Write write) {
  const Tensor& logits = part.logits;
  if (on_host_by_trees(logits)) {
    return cpu::tree_cross_entropy_of_parts(loss, part, highest, sums, normalizer, write);
  }
  const Tensor scratch = Tensor::empty(logits.device(), {part.targets.numel()}, DType::kF64);
  const Tensor partials = gpu::partials_of_exact_sum(logits.device(), part.targets.numel());
  const auto launched =
      launch("cross_entropy_of_parts", {logits, part.targets, highest, sums, loss},
             {logits, loss, scratch, partials});
  const kernels::generic::PartialCrossEntropy of{.highest = source(highest),
                                                 .sums = source(sums),
                                                 .normalizer = normalizer,
                                                 .loss = gpu::elements<double>(loss),
                                                 .write = gpu::write_of(write),
                                                 .scratch = gpu::elements<double>(scratch),
                                                 .partials = gpu::digits_in(partials)};
  launched.kernels().partial_cross_entropy(rows_of(part), of, launched.queue());
}

void cross_entropy_by_trees(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                            double normalizer, Write write) {
  const Tensor wide = cast(logits, accumulation_dtype(logits.dtype()));
  const LogitsOfPart all{wide, targets, {0, logits.size(-1)}};
  const Tensor highest = highest_logits(all);
  cross_entropy_of_parts(loss, all, highest, exponentials_of_logits(all, highest), normalizer,
                         write);
  if (!wide.shares_storage(logits)) cast_into(logits, wide);
}

void merge_attention_on_device(const AttentionResult& into, const AttentionResult& part) {
  const Shape& shape = into.output.shape();
  const auto launched =
      launch("merge_attention", {into.output, into.log_sum_exp, part.output, part.log_sum_exp},
             {into.output, into.log_sum_exp});
  const kernels::generic::PartialAttentions of{.batch = shape[0],
                                               .seq = shape[1],
                                               .heads = shape[2],
                                               .head_dim = shape[3],
                                               .output = target(into.output),
                                               .log_sum_exp = target(into.log_sum_exp),
                                               .part_output = source(part.output),
                                               .part_log_sum_exp = source(part.log_sum_exp)};
  launched.kernels().merge_attention(of, launched.queue());
}

}  // namespace ultra::ops
