#pragma once
/// @file
/// Layout: how a training is shared out among GPUs; and Software: what the program that runs it
/// hides, fuses and keeps.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/01_memory/memory_estimate.hpp"
#include "chapters/04_zero/zero_stage.hpp"
#include "chapters/06_context_parallel/attention_methods/context_method.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_choice.hpp"
#include "chapters/11_five_d/planner/model/model_shape.hpp"
#include "common/optim/rules.hpp"

namespace ultra::planner {

/// @brief Which axis changes slowest from rank to rank; tp is fastest and cp next in both.
enum class Outermost : std::uint8_t {
  kPipeline,  ///< tp, cp, dp, pp: Megatron-LM, nanotron
  kData,      ///< tp, cp, pp, dp: Llama 3, this book's mesh
};

/// @brief How work and states are shared out.
struct Layout {
  std::size_t dp = 1;  ///< replicas
  std::size_t pp = 1;  ///< stages of the pipeline
  std::size_t cp = 1;  ///< ranks that share a sequence
  std::size_t tp = 1;  ///< ranks that share each matrix
  std::size_t ep = 1;  ///< ranks of dp times cp that hold the experts together: no ranks of its own
  zero::ZeroStage zero = zero::ZeroStage::kOptimizer;  ///< over dp times cp
  std::size_t copies = 1;  ///< of what zero shards: groups of replicas, where sharding is hybrid
  pipeline_parallel::ScheduleChoice schedule = {};         ///< of the pipeline
  std::size_t micro_batch = 1;                             ///< b, sequences
  memory::Recompute recompute = memory::Recompute::kNone;  ///< of every block
  bool sequence_parallel = true;     ///< tokens are split between the matrices, over tp
  bool offload = false;              ///< the optimizer's states are in the host's memory
  bool offload_activations = false;  ///< what blocks keep is, too, until the backward pass
  context_parallel::ContextMethod context_method =
      context_parallel::ContextMethod::kAllGather;  ///< of cp
  memory::NumberFormats precision =
      memory::NumberFormats::kBf16MixedFp32Grads;  ///< of states and passes
  Outermost outermost = Outermost::kData;          ///< of the ranks' order

  /// @brief dp pp cp tp.
  [[nodiscard]] std::size_t gpus() const { return dp * pp * cp * tp; }
  /// @brief Ranks that share what zero shards: dp cp / copies.
  [[nodiscard]] std::size_t shard_ranks() const { return dp * cp / copies; }
  /// @brief "dp 8 x pp 4 x tp 8, ZeRO-1, 1f1b, micro-batch 1, recompute selective, sp".
  [[nodiscard]] std::string str() const;
  bool operator==(const Layout&) const = default;
};

/// @brief "all-gather", "ring" or "ulysses", as --cp-method has them: the methods that plans choose from.
[[nodiscard]] std::string_view name_of(context_parallel::ContextMethod method);

/// @brief What attention does with its scores.
enum class AttentionKernel : std::uint8_t {
  kStored,  ///< writes the matrix of all scores, and computes those behind the causal mask too
  kFlash,   ///< keeps blocks of it on the chip
};

/// @brief What an implementation does that no layout says.
struct Software {
  std::string name;                                     ///< "megatron-2022"
  AttentionKernel attention = AttentionKernel::kFlash;  ///< of its blocks
  bool fused_elementwise = true;   ///< activation, dropout and residual sum in one kernel each
  bool fused_accumulation = true;  ///< a weight's gradient is added up where its product is written
  bool fused_projections = true;   ///< query, key and value are one product, gate and up another
  double loss_bytes = 0;        ///< of a logit within the loss, at most, beside the product's; with
                                ///< what the allocator cannot use there
  double split_loss_bytes = 0;  ///< so many more where tp splits the vocabulary
  bool keeps_all_logits = false;  ///< a pipeline's last stage keeps each micro-batch's to the end
  bool receives_apart = false;    ///< a stage has buffers for the input and the gradient of every
                                  ///< micro-batch, and keeps its outputs until their backward pass
  bool keeps_half_products =
      false;  ///< selective recomputation keeps every second product's output,
              ///< and attention's, and computes all else again
  bool weights_are_masters =
      false;  ///< shards are the fp32 weights; gathered ones are cast, to fp8 where products
              ///< are, and the tables stay gathered; ZeRO's other stages gather once a step,
              ///< and sum whole gradients until its end
  bool expandable_segments = false;  ///< the allocator's one segment of a stream grows, and all
                                     ///< that it holds in vain is counted where it arises
  bool last_norm_in_fp32 = false;    ///< and its input kept so
  bool orders_apart =
      false;  ///< what tp gathers or adds up along the sequence lies in memory of its
              ///< own before, or behind, it is put in order
  bool repeats_keys = false;  ///< attention gathers over cp the keys and values of each query head
  bool low_precision_gradients = false;  ///< keeps bf16 gradients beside the fp32 ones
  bool buckets_apart = false;  ///< replicas without ZeRO exchange copies of those, which stay
  double exchanged_gradient_bytes = 4;  ///< of an element when replicas exchange gradients
  bool overlaps_data = false;           ///< exchanges of replicas run beside backward and forward
  bool gathers_ahead = true;  ///< what a pass needs first has arrived: ZeRO-1's and 2's new weights
                              ///< travel beside the step's end and beginning, ZeRO-3's first block
                              ///< beside the pass before
  bool overlaps_tensor = false;      ///< exchanges of tp run beside products
  bool overlaps_pipeline = false;    ///< messages between stages run beside passes
  bool validates_later = true;       ///< an update does not wait for the norm of all stages
  bool overlaps_experts = false;     ///< exchanges of tokens run beside another micro-batch
  bool sends_once_per_node = false;  ///< a token to a node, not to each expert there
  bool offloads_activations = true;  ///< it can: to the host's memory, beside the passes
  bool offloads_optimizer = true;    ///< it can: to the host's memory
  zero::ZeroStage most_zero = zero::ZeroStage::kParameters;  ///< the highest stage that it has
  bool shards_in_groups = false;  ///< hybrid sharding: it can keep a copy in each group of replicas
  std::vector<Outermost> orders = {Outermost::kData};  ///< of ranks, its own first
  std::vector<pipeline_parallel::ScheduleKind> schedules =
      {};                                 ///< that it has; none: all that are searched
  bool overlaps_weight_gradients = true;  ///< of tp's backward exchanges one in two runs beside the
                                          ///< weight gradient's product
  bool balances_stages = false;           ///< the last stage has fewer blocks, for the output table
  bool fp8_products = false;           ///< linear layers compute in fp8, and keep their inputs so
  bool exchanges_each_tensor = false;  ///< ZeRO's exchanges are one for each weight, in turn
  bool tables_fill_chunks = true;      ///< a chunk may have a table and no block
  bool keeps_inputs_gathered =
      false;                    ///< what tp gathered for a product stays for its backward pass
  bool keeps_gathered = false;  ///< a split backward pass leaves for W what tp gathered for B
  bool on_gpus = true;  ///< with a CUDA context, NCCL's buffers and an allocator that caches
  int data_nics = 0;    ///< of each node that an exchange of replicas passes through; 0: all
  int exchanging_multiprocessors = 0;  ///< that do nothing but exchange, all the time

  /// @brief Bytes of gradients that are kept per parameter, apart from ZeRO.
  [[nodiscard]] double kept_gradient_bytes(memory::NumberFormats precision) const;
};

/// @brief The implementations that published figures come from, and "modern", which hides what can
/// be hidden.
[[nodiscard]] const std::vector<Software>& named_software();

/// @brief The software of that name.
/// @throws ConfigError with all names for an unknown one.
[[nodiscard]] const Software& find_software(std::string_view name);

/// @brief What is trained: a model, its sequences, how many of them make a step, and by which rule.
struct Workload {
  ModelShape model;                                          ///< of any kind
  std::size_t seq_len = 2048;                                ///< s, tokens
  std::size_t global_batch = 1;                              ///< B, sequences of a step
  std::string optimizer = std::string(optim::kDefaultRule);  ///< of optim::rule_names()

  /// @brief B s.
  [[nodiscard]] double tokens() const {
    return static_cast<double>(global_batch) * static_cast<double>(seq_len);
  }
};

/// @brief m: micro-batches of each replica in a step.
/// @pre why_impossible() has nothing to say.
[[nodiscard]] std::size_t micro_batches_of(const Workload& work, const Layout& layout);

/// @brief Why a layout cannot run at all, whatever memory there is; empty when it can.
///
/// What must divide: heads and widths by tp, sequences by 2 cp, the batch by dp and b, experts by
/// ep, dp cp by ep and by the copies of hybrid sharding; there must be a block for every chunk, and the schedule must have enough
/// micro-batches.
[[nodiscard]] std::optional<std::string> why_impossible(const Workload& work, const Layout& layout);

/// @brief Blocks of each stage: as even as can be. Where they do not divide, the last stage has
/// fewer, then the first; with balances_stages the output table counts as what it costs in blocks.
[[nodiscard]] std::vector<std::size_t> blocks_of_stages(const ModelShape& model,
                                                        const Layout& layout,
                                                        const Software& software);

}  // namespace ultra::planner
