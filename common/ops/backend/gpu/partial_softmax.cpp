#include "common/ops/partial_softmax.hpp"

#include "common/ops/backend/cpu/tree/tree_rows.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "common/ops/sums/exact_sum.hpp"

namespace ultra::ops {
namespace {

using gpu::launch;
using gpu::source;
using gpu::target;

kernels::generic::PartOfLogits rows_of(const LogitsOfPart& part) {
  return {.rows = part.targets.numel(),
          .columns = part.logits.size(-1),
          .vocab = part.vocabulary.size(),
          .first_token = part.vocabulary.begin,
          .logits = target(part.logits),
          .targets = gpu::integers(part.targets)};
}

}  // namespace

Tensor highest_logits(const LogitsOfPart& part) {
  const Tensor& logits = part.logits;
  if (sums_by_trees(logits.device())) return cpu::tree_highest_logits(part);
  Tensor highest = Tensor::empty(logits.device(), {part.targets.numel()}, logits.dtype());
  const auto launched = launch("highest_logits", {logits}, {highest});
  launched.kernels().highest_of_rows(rows_of(part), target(highest), launched.queue());
  return highest;
}

Tensor exponentials_of_logits(const LogitsOfPart& part, const Tensor& highest) {
  const Tensor& logits = part.logits;
  if (sums_by_trees(logits.device())) return cpu::tree_exponentials_of_logits(part, highest);
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
  if (sums_by_trees(logits.device())) {
    return cpu::tree_cross_entropy_of_parts(loss, part, highest, sums, normalizer, write);
  }
  const Tensor scratch = Tensor::empty(logits.device(), {part.targets.numel()}, DType::kF64);
  const auto launched =
      launch("cross_entropy_of_parts", {logits, part.targets, highest, sums, loss},
             {logits, loss, scratch});
  const kernels::generic::PartialCrossEntropy of{.highest = source(highest),
                                                 .sums = source(sums),
                                                 .normalizer = normalizer,
                                                 .loss = gpu::elements<double>(loss),
                                                 .write = gpu::write_of(write),
                                                 .scratch = gpu::elements<double>(scratch)};
  launched.kernels().partial_cross_entropy(rows_of(part), of, launched.queue());
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
