#include "chapters/11_five_d/planner/time/block_time.hpp"

#include <algorithm>
#include <cmath>

#include "chapters/02_collectives/cost/exchange_price.hpp"
#include "chapters/11_five_d/planner/rank_placement.hpp"
#include "chapters/11_five_d/planner/time/exposed_exchanges.hpp"
#include "common/base/numeric.hpp"
#include "common/replay/prices.hpp"
#include "common/replay/product_time.hpp"

namespace ultra::planner {
namespace {

using memory::BlockKind;
using memory::Recompute;

/// What the formulas share.
class BlockModel {
 public:
  BlockModel(const Question& question, const Layout& layout)
      : q_(question),
        l_(layout),
        shape_(question.work.model.shape()),
        e_(real(memory::activation_element_bytes(layout.precision))),
        tokens_(real(layout.micro_batch * question.work.seq_len) / real(layout.cp)),
        h_(real(shape_.hidden_size)),
        t_(real(layout.tp)),
        between_(tokens_ / (layout.sequence_parallel ? t_ : 1.0)) {}

  BlockSeconds block(bool experts) const {
    BlockSeconds block;
    const PassSeconds products = linear_products(experts);
    block.forward = products;
    block.forward.attention = attention_forward();
    block.forward.elementwise = elementwise(true, experts);
    block.backward.products = 2 * products.products;
    block.backward.attention = attention_backward();
    block.backward.elementwise = elementwise(false, experts) + accumulation(experts);
    block.weight_gradients = products.products + accumulation(experts);
    add_exchanges(block, experts);
    add_recomputation(block, experts);
    add_host_exchange(block, experts);
    return block;
  }

  BlockSeconds head() const {
    const double columns = real(shape_.vocab_size) / t_;
    BlockSeconds head;
    head.forward.products = product(tokens_, h_, columns, false);
    // Logits written, read in fp32 for maximum and sum, and once more for the target.
    constexpr double kLossForward = 3;
    constexpr double kLossBackward = 2;
    constexpr double kFp32 = 4;
    const double unfused = q_.software.fused_elementwise ? 1 : 2;
    head.forward.elementwise =
        memory_seconds(kFp32 * unfused * kLossForward * tokens_ * columns + 2 * e_ * between_ * h_);
    head.backward.products = 2 * head.forward.products;
    head.backward.elementwise =
        memory_seconds(kFp32 * unfused * kLossBackward * tokens_ * columns +
                       3 * e_ * between_ * h_ + accumulated_bytes() * h_ * columns);
    head.weight_gradients = head.forward.products;
    // Its input is gathered, and once more for the weight's gradient where tokens are shared out.
    head.forward.tensor_exchange = tensor_exchange();
    head.backward.tensor_exchange = (l_.sequence_parallel ? 2 : 1) * tensor_exchange();
    return head;
  }

  BlockSeconds embedding() const {
    BlockSeconds embedding;
    embedding.forward.tensor_exchange = (l_.sequence_parallel ? 1 : 2) * tensor_exchange();
    embedding.backward.tensor_exchange = l_.sequence_parallel ? tensor_exchange() : 0;
    return embedding;
  }

 private:
  replay::GroupPlacement group(PlanAxis axis) const {
    return placement_of(l_, axis, static_cast<std::size_t>(q_.cluster.gpus_per_node));
  }

  /// An all-gather or a reduce-scatter of a micro-batch's tokens; an all-reduce is both.
  double tensor_exchange() const {
    return collectives::gather_seconds(q_.cluster, group(PlanAxis::kTensor), e_ * tokens_ * h_);
  }

  double memory_seconds(double bytes) const {
    const replay::GpuType& gpu = q_.cluster.gpu;
    return bytes / (gpu.memory_bandwidth * gpu.efficiency.memory);
  }

  double peak_flops() const {
    return replay::peak_flops(q_.cluster.gpu, static_cast<std::size_t>(e_));
  }

  bool computes_in_fp8() const { return q_.software.fp8_products && q_.cluster.gpu.fp8_flops > 0; }

  double product(double m, double k, double n, bool may_be_fp8 = true) const {
    const replay::GpuType& gpu = q_.cluster.gpu;
    const bool fp8 = may_be_fp8 && computes_in_fp8();
    const double seconds = replay::product_seconds(gpu, {.m = m, .k = k, .n = n}, fp8 ? 1 : e_,
                                                   fp8 ? gpu.fp8_flops : peak_flops());
    return seconds / free_multiprocessors() + gpu.kernel_seconds;
  }

  /// The part of the multiprocessors that exchanges leave.
  double free_multiprocessors() const {
    return 1 - real(static_cast<std::size_t>(q_.software.exchanging_multiprocessors)) /
                   q_.cluster.gpu.multiprocessors;
  }

  double matrices() const { return shape_.kind == BlockKind::kGpt ? 2 : 3; }
  double kv() const { return real(std::max(shape_.kv_hidden_size(), l_.tp * shape_.head_dim())); }

  /// Rows that the experts of a rank get, spread evenly.
  double expert_rows() const { return tokens_ * real(q_.work.model.layers.moe.top_k); }

  /// Products of one input, with as many columns each.
  double projections(double rows, double count, double columns) const {
    return q_.software.fused_projections ? product(rows, h_, count * columns)
                                         : count * product(rows, h_, columns);
  }

  double ffn_products(double rows, double width) const {
    return projections(rows, matrices() - 1, width / t_) + product(rows, width / t_, h_);
  }

  double attention_projections() const {
    const double output = product(tokens_, h_ / t_, h_);
    if (q_.software.fused_projections) return product(tokens_, h_, (h_ + 2 * kv()) / t_) + output;
    return product(tokens_, h_, h_ / t_) + 2 * product(tokens_, h_, kv() / t_) + output;
  }

  PassSeconds linear_products(bool experts) const {
    PassSeconds pass;
    const auto& latent = q_.work.model.layers.attention_parameters;
    if (latent) {
      pass.products = product(tokens_, h_, real(*latent) / h_ / t_);
    } else {
      pass.products = attention_projections();
    }
    if (!experts) {
      pass.products += ffn_products(tokens_, real(shape_.ffn_hidden_size));
      return pass;
    }
    const expert_parallel::MoeConfig& moe = q_.work.model.layers.moe;
    const double held = real(moe.num_experts) / real(l_.ep);
    pass.products += held * ffn_products(expert_rows() / held, real(moe.expert_ffn));
    pass.products += product(tokens_, h_, real(moe.num_experts), false);
    if (moe.shared_experts > 0) {
      pass.products += ffn_products(tokens_, real(moe.shared_experts * moe.expert_ffn));
    }
    return pass;
  }

  /// Elements of the scores of all heads of the rank.
  double scores() const {
    return real(l_.micro_batch * shape_.num_heads) * real(q_.work.seq_len) * real(q_.work.seq_len) /
           real(l_.cp) / t_;
  }

  double attention_flop() const {
    return 4 * tokens_ * real(q_.work.seq_len) * q_.work.model.attention_width() / t_;
  }

  /// Behind a causal mask; as products where all scores are computed.
  double attention_products(double times) const {
    const replay::GpuType& gpu = q_.cluster.gpu;
    if (q_.software.attention == AttentionKernel::kFlash) {
      return times * attention_flop() / 2 /
                 (peak_flops() * gpu.flash_attention * free_multiprocessors()) +
             gpu.kernel_seconds;
    }
    constexpr double kBatchedProducts = 0.6;  // of a large product's speed, with k of a head
    return times * attention_flop() / (peak_flops() * gpu.efficiency.products * kBatchedProducts);
  }

  double attention_forward() const {
    if (q_.software.attention == AttentionKernel::kFlash) return attention_products(1);
    // Scores written; softmax reads and writes; dropout too, with a mask; read for the values.
    return attention_products(1) + memory_seconds((6 * e_ + 1) * scores());
  }

  double attention_backward() const {
    constexpr double kFlash = 2.5;
    if (q_.software.attention == AttentionKernel::kFlash) return attention_products(kFlash);
    // Gradient written; dropout: read, mask, write; softmax: two read, one written; two products
    // read it and one the forward pass's.
    return attention_products(2) + memory_seconds((9 * e_ + 1) * scores());
  }

  /// Bytes of a block: of h elements between the matrices, of the rank's width inside them.
  double elementwise(bool forward, bool experts) const {
    const double unfused = q_.software.fused_elementwise ? 1 : 1.6;
    double between = 0;  // two norms, two residual sums; the gradients of both ways added up
    double inside = 0;
    if (shape_.kind == BlockKind::kGpt) {
      between = forward ? (4 + 6) * e_ + 2 : (6 + 4 + 6) * e_ + 2;  // with dropout's masks
      inside = (forward ? 2 : 3) * e_ * real(shape_.ffn_hidden_size) / t_;
    } else {
      between = (forward ? 10 : 12) * e_;
      const expert_parallel::MoeConfig& moe = q_.work.model.layers.moe;
      const double width =
          experts ? real(moe.expert_ffn * (moe.top_k + moe.shared_experts)) : ffn();
      inside = e_ * ((forward ? 3 : 5) * width + 2 * (h_ + kv())) / t_;
      // Rows dealt out and put together again.
      if (experts) inside += 4 * e_ * h_ * real(moe.top_k);
      if (computes_in_fp8()) inside += cast_bytes(forward, width, experts);
    }
    constexpr double kKernels = 12;
    return memory_seconds(unfused * (between * between_ * h_ + inside * tokens_)) +
           kKernels * (forward ? 1 : 2) * q_.cluster.gpu.kernel_seconds;
  }

  /// Inputs of the linear layers, read in bf16 and written in fp8; backward their outputs' gradients
  /// in two layouts, and the inputs in the other one.
  double cast_bytes(bool forward, double ffn_width, bool experts) const {
    const expert_parallel::MoeConfig& moe = q_.work.model.layers.moe;
    const double rows = experts ? real(moe.top_k + moe.shared_experts) : 1;
    const double inputs = (2 + rows) * h_ + ffn_width;
    const double outputs = 2 * h_ + 2 * kv() + 2 * ffn_width + rows * h_;
    return (forward ? (e_ + 1) * inputs : 2 * inputs + (e_ + 2) * outputs) / t_;
  }

  double ffn() const { return real(shape_.ffn_hidden_size); }

  /// Bytes per parameter and micro-batch of adding a gradient to the sum.
  double accumulated_bytes() const {
    if (micro_batches_of(q_.work, l_) == 1) return 0;
    // A product that was measured has read and written its sum.
    const bool measured = !q_.cluster.gpu.measured_products.empty();
    if (measured && q_.software.fused_accumulation) return 0;
    const double sum = q_.software.kept_gradient_bytes(l_.precision) > 2 ? 4 : e_;
    return 2 * sum + (q_.software.fused_accumulation ? 0 : 2 * e_);
  }

  double accumulation(bool experts) const {
    const expert_parallel::MoeConfig& moe = q_.work.model.layers.moe;
    double weights = 2 * h_ * (h_ + kv());
    weights += experts ? 3 * h_ * real(moe.expert_ffn) *
                             (real(moe.num_experts) / real(l_.ep) + real(moe.shared_experts))
                       : matrices() * h_ * ffn();
    return memory_seconds(accumulated_bytes() * weights / t_);
  }

  void add_exchanges(BlockSeconds& block, bool experts) const {
    if (l_.tp > 1) add_tensor_exchange(block);
    const WaitSeconds context = context_waits(
        q_, l_, {.forward = block.forward.attention, .backward = block.backward.attention});
    block.forward.context_exchange = context.forward;
    block.backward.context_exchange = context.backward;
    if (!experts) return;
    const WaitSeconds tokens = expert_waits(
        q_, l_, {.forward = block.forward.compute(), .backward = block.backward.compute()});
    block.forward.expert_exchange = tokens.forward;
    block.backward.expert_exchange = tokens.backward;
  }

  void add_tensor_exchange(BlockSeconds& block) const {
    const replay::GroupPlacement tp = group(PlanAxis::kTensor);
    const double bytes = e_ * tokens_ * h_;
    const double half = l_.sequence_parallel
                            ? 2 * tensor_exchange()
                            : collectives::all_reduce_seconds(q_.cluster, tp, bytes);
    double forward = 2 * half;
    double backward = 2 * half;
    const double again = l_.sequence_parallel ? 2 * tensor_exchange() : 0.0;
    if (q_.software.overlaps_weight_gradients) {
      // The reduction beside the column-parallel matrix's weight gradient, the gathering of its
      // input beside its input gradient.
      const double reduced = l_.sequence_parallel ? half : 2 * half;
      backward -= std::min(reduced, block.backward.products / 4);
      backward += std::max(0.0, again - block.backward.products / 4);
    } else {
      backward += again;
    }
    if (q_.software.overlaps_tensor) {
      constexpr double kExposed = 0.25;  // the first part of each, which nothing can hide
      forward = std::max(kExposed * forward, forward - block.forward.products);
      backward = std::max(kExposed * backward, backward - block.backward.products);
    }
    block.forward.tensor_exchange = forward;
    block.backward.tensor_exchange = backward;
  }

  void add_host_exchange(BlockSeconds& block, bool experts) const {
    const WaitSeconds host =
        host_waits(q_, l_, experts,
                   {.forward = block.forward.total(),
                    .backward = block.recompute.total() + block.backward.total()});
    block.forward.host_exchange = host.forward;
    block.backward.host_exchange = host.backward;
  }

  void add_recomputation(BlockSeconds& block, bool experts) const {
    if (l_.recompute == Recompute::kNone) return;
    if (l_.recompute == Recompute::kFull) {
      block.recompute = block.forward;
      return;
    }
    if (shape_.kind == BlockKind::kGpt) {
      // Scores, softmax and dropout, but not the values' product. Flash attention does so anyway.
      if (q_.software.attention == AttentionKernel::kStored) {
        block.recompute.attention =
            attention_products(0.5) + memory_seconds((5 * e_ + 1) * scores());
      }
      return;
    }
    if (q_.software.keeps_half_products) {
      block.recompute.products = attention_projections() / 2 + ffn_products(tokens_, ffn()) / 3;
      block.recompute.elementwise = elementwise(true, experts);
      return;
    }
    block.recompute.elementwise = elementwise(true, experts) / 2;  // norms and SwiGLU's product
  }

  const Question& q_;
  const Layout& l_;
  const memory::TransformerShape& shape_;
  double e_;        // bytes of an activation's element
  double tokens_;   // of a micro-batch on this rank
  double h_;        // hidden size
  double t_;        // tp
  double between_;  // tokens between the matrices
};

}  // namespace

void PassSeconds::add(const PassSeconds& other, double times) {
  products += times * other.products;
  attention += times * other.attention;
  elementwise += times * other.elementwise;
  tensor_exchange += times * other.tensor_exchange;
  context_exchange += times * other.context_exchange;
  expert_exchange += times * other.expert_exchange;
  host_exchange += times * other.host_exchange;
}

BlockSeconds block_seconds(const Question& question, const Layout& layout, bool experts) {
  return BlockModel(question, layout).block(experts);
}

BlockSeconds head_seconds(const Question& question, const Layout& layout) {
  return BlockModel(question, layout).head();
}

BlockSeconds embedding_seconds(const Question& question, const Layout& layout) {
  return BlockModel(question, layout).embedding();
}

}  // namespace ultra::planner
