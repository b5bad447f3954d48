#include "chapters/05_tensor_sequence_parallel/scaling/tp_scaling_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"
#include "chapters/03_data_parallel/scaling/scaling_model.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_memory.hpp"
#include "chapters/05_tensor_sequence_parallel/scaling/micro_batch_work.hpp"
#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {
namespace {

constexpr std::array<PlaybookFigure, 5> kFigures = {{
    {.tp = 2, .micro_batch = 4, .tokens_per_second_per_rank = 14167.25},
    {.tp = 4, .micro_batch = 10, .tokens_per_second_per_rank = 13460.16},
    {.tp = 8, .micro_batch = 20, .tokens_per_second_per_rank = 10888.53},
    {.tp = 16, .micro_batch = 40, .tokens_per_second_per_rank = 6159.3},
    {.tp = 32, .micro_batch = 100, .tokens_per_second_per_rank = 3609.73},
}};

}  // namespace

std::span<const PlaybookFigure> playbook_figures() { return kFigures; }

std::optional<PlaybookFigure> find_playbook_figure(int tp) {
  const auto found = std::ranges::find(kFigures, tp, &PlaybookFigure::tp);
  if (found == kFigures.end()) return std::nullopt;
  return *found;
}

const memory::TransformerShape& playbook_model() {
  static const memory::TransformerShape model = {.name = "playbook-3b",
                                                 .kind = memory::BlockKind::kLlama,
                                                 .num_layers = 28,
                                                 .hidden_size = 3072,
                                                 .num_heads = 32,
                                                 .num_kv_heads = 32,
                                                 .ffn_hidden_size = 8192,
                                                 .vocab_size = 131072,
                                                 .num_positions = 0,
                                                 .embeddings = memory::Embeddings::kTied};
  return model;
}

namespace {

using collectives::Topology;
using data_parallel::expect_between;
using data_parallel::expect_positive;
using memory::TransformerShape;

/// Batches and sequences beyond these are slips.
constexpr std::size_t kMostSequences = 1'000'000;
constexpr std::size_t kLongestSequence = 100'000'000;
constexpr double kMostBytes = 1e18;  // of an exchange

// Validation --------------------------------------------------------------------------------------

bool fills_nodes(int tp, const Topology& node) {
  return tp <= node.gpus_per_node || tp % node.gpus_per_node == 0;
}

bool splits(const TpScalingRequest& request, int tp) {
  try {
    tensor_parallel::validate(request.model, {.seq_len = request.seq_len},
                              {.tp = tp, .sequence_parallel = request.sequence_parallel});
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

/// What --scale-tp could be.
std::string possible(const TpScalingRequest& request) {
  std::vector<int> tp;
  for (int ranks = 1; std::cmp_less_equal(ranks, request.model.num_heads); ++ranks) {
    if (request.model.num_heads % static_cast<std::size_t>(ranks) != 0) continue;
    if (fills_nodes(ranks, request.machine) && splits(request, ranks)) tp.push_back(ranks);
  }
  if (tp.empty()) return "No number of ranks does.";
  return fmt::format("Choose from {}.", fmt::join(tp, ", "));
}

void expect_splits(const TpScalingRequest& request) {
  const TransformerShape& model = request.model;
  for (const int tp : request.tp) {
    if (!splits(request, tp)) {
      throw ConfigError(fmt::format(
          "--scale-tp {} does not split {} into equal parts: {} heads, {} key/value heads, hidden "
          "size {}, feed-forward size {}{}. {}",
          tp, model.name, model.num_heads, model.num_kv_heads, model.hidden_size,
          model.ffn_hidden_size,
          request.sequence_parallel == SequenceParallel::kOn
              ? fmt::format(", sequences of {}", request.seq_len)
              : "",
          possible(request)));
    }
    if (!fills_nodes(tp, request.machine)) {
      throw ConfigError(fmt::format("--scale-tp {} does not fill nodes of {} GPUs. {}", tp,
                                    request.machine.gpus_per_node, possible(request)));
    }
  }
}

void expect_micro_batches(const TpScalingRequest& request) {
  const std::size_t count = request.micro_batch.size();
  if (count != 1 && count != request.tp.size()) {
    throw ConfigError(fmt::format(
        "--scale-tp-micro-batch has {} numbers. It must have 1, or {}: one for each of --scale-tp.",
        count, request.tp.size()));
  }
  for (const std::size_t sequences : request.micro_batch) {
    expect_between("--scale-tp-micro-batch", sequences, 1, kMostSequences);
    const double bytes = static_cast<double>(sequences) * static_cast<double>(request.seq_len) *
                         static_cast<double>(request.model.hidden_size * request.element_bytes);
    if (bytes > kMostBytes) {
      throw ConfigError(
          fmt::format("--scale-tp-micro-batch {} x --scale-tp-seq {} is too much: {:g} bytes of "
                      "one activation. "
                      "It must be at most {:g}.",
                      sequences, request.seq_len, bytes, kMostBytes));
    }
  }
}

// Prediction --------------------------------------------------------------------------------------

/// A machine whose node has as many GPUs as there are ranks, with the same links.
Topology one_node(int tp, Topology node) {
  node.gpus_per_node = tp;
  return data_parallel::machine_for(tp, node);
}

/// All exchanges of a micro-batch on one machine.
struct Communication {
  double seconds = 0;
  double exposed_seconds = 0;
  double intra_bytes = 0, inter_bytes = 0;
};

// [region communication]
Communication communication_on(const Topology& machine, const TpScalingRequest& request,
                               const std::vector<RepeatedExchange>& exchanges) {
  Communication total;
  for (const RepeatedExchange& repeated : exchanges) {
    const ExchangeCost cost = simulate_exchange(repeated.exchange, request.algorithm, machine);
    const double hidden = request.hide == Hide::kWeightGradients
                              ? std::min(cost.seconds, repeated.concurrent_flop / request.flops())
                              : 0.0;
    const auto times = static_cast<double>(repeated.times);
    total.seconds += times * cost.seconds;
    total.exposed_seconds += times * (cost.seconds - hidden);
    total.intra_bytes += times * cost.intra_bytes;
    total.inter_bytes += times * cost.inter_bytes;
  }
  return total;
}
// [/region]

TpScalingPoint predict_point(const TpScalingRequest& request, std::size_t index) {
  const int tp = request.tp[index];
  const memory::BatchShape batch{.size = request.micro_batch_of(index), .seq_len = request.seq_len};
  const MicroBatchWork work =
      micro_batch_work(request.model, batch, request.element_bytes,
                       {.tp = tp, .sequence_parallel = request.sequence_parallel});
  const Topology machine = data_parallel::machine_for(tp, request.machine);
  const Communication here = communication_on(machine, request, work.exchanges);
  const Communication alone =
      communication_on(one_node(tp, request.machine), request, work.exchanges);

  TpScalingPoint point{.tp = tp, .nodes = machine.nodes, .micro_batch = batch.size};
  point.product_seconds = work.product_flop / request.flops();
  point.elementwise_seconds = work.elementwise_bytes / request.memory_bandwidth;
  point.communication_seconds = here.seconds;
  point.exposed_seconds = here.exposed_seconds;
  point.intra_bytes = here.intra_bytes;
  point.inter_bytes = here.inter_bytes;
  const double computes = point.product_seconds + point.elementwise_seconds;
  const double tokens_per_rank = static_cast<double>(batch.tokens()) / tp;
  point.step_seconds = computes + here.exposed_seconds;
  point.tokens_per_second_per_rank = tokens_per_rank / point.step_seconds;
  point.one_node_tokens_per_second_per_rank = tokens_per_rank / (computes + alone.exposed_seconds);
  point.communication_share = here.exposed_seconds / point.step_seconds;
  return point;
}

/// The bar of the figure that answers the same question.
std::optional<PlaybookFigure> published_for(const TpScalingRequest& request, std::size_t index) {
  if (!request.is_the_playbooks()) return std::nullopt;
  const std::optional<PlaybookFigure> figure = find_playbook_figure(request.tp[index]);
  if (!figure || figure->micro_batch != request.micro_batch_of(index)) return std::nullopt;
  return figure;
}

}  // namespace

std::string_view to_string(Hide hide) {
  return hide == Hide::kNothing ? "nothing" : "weight-gradients";
}

bool TpScalingRequest::is_the_playbooks() const {
  return model == playbook_model() && seq_len == kPlaybookSeqLen &&
         sequence_parallel == SequenceParallel::kOn && machine.gpus_per_node == 8 &&
         peak_flops == 989e12 && element_bytes == 2;
}

void TpScalingRequest::validate() const {
  data_parallel::expect_ascending(
      tp, {.flag = "--scale-tp",
           .example = "1,2,4,8,16",
           .most = collectives::kMaxRanks,
           .bounds = fmt::format("there are from 1 to {} ranks", collectives::kMaxRanks)});
  data_parallel::expect_one_node("--scale-tp", machine);
  expect_between("--scale-tp-seq", seq_len, 1, kLongestSequence);
  expect_between("--scale-tp-bytes", element_bytes, 1, 8);
  expect_splits(*this);
  expect_micro_batches(*this);
  expect_positive("--scale-tp-peak-tflops", peak_flops / 1e12);
  data_parallel::expect_part("--scale-tp-mfu", mfu);
  expect_positive("--scale-tp-memory-gb-per-second", memory_bandwidth / 1e9);
}

const TpScalingPoint* TpScalingReport::first_across_nodes() const {
  const auto found =
      std::ranges::find_if(points, [](const TpScalingPoint& point) { return point.nodes > 1; });
  return found == points.end() ? nullptr : &*found;
}

TpScalingReport predict_tp_scaling(const TpScalingRequest& request) {
  request.validate();
  TpScalingReport report{.request = request, .points = {}};
  for (std::size_t i = 0; i < request.tp.size(); ++i) {
    TpScalingPoint point = predict_point(request, i);
    if (i > 0) {
      point.ratio_to_previous =
          point.tokens_per_second_per_rank / report.points.back().tokens_per_second_per_rank;
    }
    point.published = published_for(request, i);
    report.points.push_back(point);
  }
  return report;
}

}  // namespace ultra::tensor_parallel
