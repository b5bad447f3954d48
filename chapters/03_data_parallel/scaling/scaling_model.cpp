#include "chapters/03_data_parallel/scaling/scaling_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "chapters/02_collectives/choice/algorithm_table.hpp"
#include "chapters/02_collectives/simulator/closed_form.hpp"
#include "chapters/02_collectives/simulator/cost_model.hpp"
#include "chapters/02_collectives/simulator/link_simulator.hpp"
#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {
namespace {

using collectives::CollectiveRequest;
using collectives::NamedAlgorithm;
using collectives::Topology;
using memory::TransformerShape;

constexpr OpKind kAllReduce = OpKind::kAllReduce;

/// Batches and sequences beyond this are slips, and their product would not fit.
constexpr std::size_t kMostSequences = 1'000'000'000;
constexpr std::size_t kLongestSequence = 1'000'000'000;

// Parameters --------------------------------------------------------------------------------------

/// Norm, query, key, value, output; norm, gate, up, down.
void append_llama_block(const TransformerShape& shape, std::vector<std::size_t>& sizes) {
  const std::size_t h = shape.hidden_size;
  const std::size_t f = shape.ffn_hidden_size;
  const std::size_t kv = shape.kv_hidden_size();
  sizes.insert(sizes.end(), {h, h * h, h * kv, h * kv, h * h, h, h * f, h * f, f * h});
}

/// Weight and bias each: norm, query-key-value, output; norm, up, down.
void append_gpt_block(const TransformerShape& shape, std::vector<std::size_t>& sizes) {
  const std::size_t h = shape.hidden_size;
  const std::size_t f = shape.ffn_hidden_size;
  sizes.insert(sizes.end(), {h, h, 3 * h * h, 3 * h, h * h, h, h, h, h * f, f, f * h, h});
}

// Prediction --------------------------------------------------------------------------------------

/// One rank's part of a bucket's all-reduce on a machine.
CollectiveRequest all_reduce_on(const Topology& machine, std::string_view algorithm, int rank,
                                std::size_t count, std::size_t element_bytes) {
  CollectiveRequest request =
      CollectiveRequest::of(kAllReduce, comm::Group::all(rank, machine.ranks()), count,
                            collectives::tuning_for(algorithm, machine));
  request.element_bytes = element_bytes;
  return request;
}

/// Why there is no prediction; empty when there is one.
std::string why_not(const ScalingRequest& request, int dp) {
  const int gpus = request.machine.gpus_per_node;
  if (dp > gpus && dp % gpus != 0) return fmt::format("they do not fill nodes of {} GPUs", gpus);
  if (dp > collectives::kMaxRanks) {
    return fmt::format("the simulation takes at most {} ranks", collectives::kMaxRanks);
  }
  if (request.batch_rule == BatchRule::kGlobal && checked_cast<std::size_t>(dp) > request.batch) {
    return fmt::format("a global batch of {} sequences leaves some of them without any",
                       request.batch);
  }
  return collectives::find_algorithm(kAllReduce, request.algorithm)
      .why_not(all_reduce_on(machine_for(dp, request.machine), request.algorithm, 0, 1,
                             request.element_bytes));
}

/// Sequences of the largest share.
std::size_t largest_share(const ScalingRequest& request, int dp) {
  if (request.batch_rule == BatchRule::kPerRank) return request.batch;
  return ceil_div(request.batch, checked_cast<std::size_t>(dp));
}

/// Sequences of the last micro-batch, which takes what is left.
std::size_t last_pass(std::size_t share, std::size_t micro_batch) {
  if (micro_batch == 0 || micro_batch >= share) return share;
  return share - (ceil_div(share, micro_batch) - 1) * micro_batch;
}

/// All weights and tokens at `flop` each.
double compute_seconds(const ScalingRequest& request, double flop, std::size_t tokens) {
  return flop * static_cast<double>(tokens) * static_cast<double>(request.model.total()) /
         request.flops();
}

// [region step]
ScalingPoint predict_point(const ScalingRequest& request, const std::vector<Bucket>& buckets,
                           int dp) {
  const Topology machine = machine_for(dp, request.machine);
  ScalingPoint point{.dp = dp, .nodes = machine.nodes, .rank_batch = largest_share(request, dp)};
  point.tokens_per_rank = point.rank_batch * request.seq_len;
  const std::size_t last = last_pass(point.rank_batch, request.micro_batch) * request.seq_len;
  point.forward_seconds = compute_seconds(request, 2.0, point.tokens_per_rank);
  point.backward_seconds = compute_seconds(request, 4.0, point.tokens_per_rank);
  point.hiding_seconds = compute_seconds(request, 4.0, last);

  if (dp > 1) {
    const std::vector<double> seconds =
        all_reduce_seconds(buckets, request.element_bytes, request.algorithm, machine);
    const std::vector<double> ready =
        bucket_ready_seconds(buckets, gradient_ready_seconds(request.model, point.hiding_seconds));
    point.communication_seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    point.exposed_seconds = stream_end(ready, seconds) - point.hiding_seconds;
  }
  point.step_seconds = point.forward_seconds + point.backward_seconds + point.exposed_seconds;
  return point;
}
// [/region]

/// What follows from the times.
void add_rates(const ScalingRequest& request, ScalingPoint& point) {
  const double replicas = point.dp;
  const auto sequences = static_cast<double>(request.batch) *
                         (request.batch_rule == BatchRule::kPerRank ? replicas : 1.0);
  point.tokens_per_second = sequences * static_cast<double>(request.seq_len) / point.step_seconds;
  point.tokens_per_second_per_rank = point.tokens_per_second / replicas;
  // One replica waits for nobody: its rate does not depend on its batch.
  point.efficiency = point.tokens_per_second_per_rank * compute_seconds(request, 6.0, 1);
  point.overlap_ratio = point.communication_seconds / point.hiding_seconds;
  point.tokens_to_hide = point.communication_seconds / compute_seconds(request, 4.0, 1);
  if (point.communication_seconds > 0.0) {
    const double bytes =
        static_cast<double>(request.model.total()) * static_cast<double>(request.element_bytes);
    point.bus_bandwidth =
        collectives::bus_bandwidth(kAllReduce, point.dp, bytes, point.communication_seconds);
  }
}

}  // namespace

std::size_t ModelSizes::total() const {
  return std::accumulate(parameters.begin(), parameters.end(), std::size_t{0});
}

ModelSizes sizes_of(const TransformerShape& shape) {
  ModelSizes model{.name = shape.name, .parameters = {}, .embeddings = shape.embeddings};
  const bool gpt = shape.kind == memory::BlockKind::kGpt;
  const std::size_t table = shape.vocab_size * shape.hidden_size;
  std::vector<std::size_t>& sizes = model.parameters;
  sizes.push_back(table);
  if (shape.num_positions > 0) sizes.push_back(shape.num_positions * shape.hidden_size);
  for (std::size_t layer = 0; layer < shape.num_layers; ++layer) {
    (gpt ? append_gpt_block : append_llama_block)(shape, sizes);
  }
  sizes.insert(sizes.end(), gpt ? 2 : 1, shape.hidden_size);
  if (shape.embeddings == memory::Embeddings::kUntied) sizes.push_back(table);
  return model;
}

void ScalingRequest::validate() const {
  expect_ascending(
      dp, {.flag = "--scale", .example = "1,2,4,8", .bounds = "there is at least 1 replica"});
  expect_one_node("--scale", machine);
  static_cast<void>(collectives::find_algorithm(kAllReduce, algorithm));
  if (model.total() == 0) throw ConfigError("--scale-preset names a model without parameters.");
  expect_between("--scale-seq", seq_len, 1, kLongestSequence);
  expect_between(batch_rule == BatchRule::kGlobal ? "--scale-global-batch" : "--scale-rank-batch",
                 batch, 1, kMostSequences);
  expect_between("--scale-bytes", element_bytes, 1, 8);
  expect_positive("--scale-peak-tflops", peak_flops / 1e12, " TFLOP/s");
  expect_part("--scale-mfu", mfu);
  if (!(bucket_bytes >= 0.0 && bucket_bytes <= 1e15)) {
    throw ConfigError(
        fmt::format("--scale-bucket-mb is {:g}. It must be from 0 to 1e9.", bucket_bytes / 1e6));
  }
}

const ScalingPoint* ScalingReport::first_link_bound() const {
  const auto found = std::ranges::find_if(
      points, [](const ScalingPoint& point) { return point.overlap_ratio > 1.0; });
  return found == points.end() ? nullptr : &*found;
}

std::vector<double> gradient_ready_seconds(const ModelSizes& model, double backward_seconds) {
  const auto total = static_cast<double>(model.total());
  const bool tied = model.embeddings == memory::Embeddings::kTied;
  std::vector<double> ready(model.parameters.size());
  // Elements whose products are done: integers, so that the last is exactly at the end.
  std::size_t done = tied ? model.parameters.front() : 0;
  for (std::size_t i = model.parameters.size(); i-- > 0;) {
    if (i > 0 || !tied) done += model.parameters[i];
    ready[i] = backward_seconds * (static_cast<double>(done) / total);
  }
  return ready;
}

std::vector<double> bucket_ready_seconds(std::span<const Bucket> buckets,
                                         std::span<const double> gradient_ready) {
  std::vector<double> ready;
  for (const Bucket& bucket : buckets) {
    double last = 0.0;
    for (const std::size_t i : bucket.parameters) last = std::max(last, gradient_ready[i]);
    ready.push_back(last);
  }
  return ready;
}

// [region stream]
double stream_end(std::span<const double> ready, std::span<const double> seconds) {
  double free = 0.0;
  for (std::size_t i = 0; i < ready.size(); ++i) free = std::max(free, ready[i]) + seconds[i];
  return free;
}
// [/region]

Topology machine_for(int dp, const Topology& node) {
  Topology machine = node;
  if (dp <= node.gpus_per_node) {
    machine.gpus_per_node = dp;
    machine.nics_per_node = std::min(node.nics_per_node, dp);
    return machine;
  }
  machine.nodes = ceil_div(dp, node.gpus_per_node);
  return machine;
}

std::vector<double> all_reduce_seconds(std::span<const Bucket> buckets, std::size_t element_bytes,
                                       std::string_view algorithm, const Topology& machine) {
  const NamedAlgorithm& named = collectives::find_algorithm(kAllReduce, algorithm);
  const auto simulated = [&](std::size_t count) {
    const auto schedule_of = [&](int rank) {
      return named.schedule(all_reduce_on(machine, algorithm, rank, count, element_bytes));
    };
    return collectives::simulate(machine, element_bytes, schedule_of).seconds;
  };
  std::map<std::size_t, double> known;  // by elements
  std::vector<double> seconds;
  for (const Bucket& bucket : buckets) {
    const auto [entry, is_new] = known.try_emplace(bucket.count, 0.0);
    if (is_new) entry->second = simulated(bucket.count);
    seconds.push_back(entry->second);
  }
  return seconds;
}

ScalingReport predict_scaling(const ScalingRequest& request) {
  request.validate();
  const double capacity = request.bucket_bytes / static_cast<double>(request.element_bytes);
  ScalingReport report{
      .request = request,
      .buckets = assign_buckets(request.model.parameters, static_cast<std::size_t>(capacity)),
      .points = {},
      .skipped = {}};
  for (const int dp : request.dp) {
    if (std::string reason = why_not(request, dp); !reason.empty()) {
      report.skipped.push_back({dp, std::move(reason)});
      continue;
    }
    report.points.push_back(predict_point(request, report.buckets, dp));
    add_rates(request, report.points.back());
  }
  if (report.points.empty()) {
    throw ConfigError(fmt::format("--scale: no number of replicas is left. Without {}: {}.",
                                  report.skipped.front().dp, report.skipped.front().reason));
  }
  return report;
}

}  // namespace ultra::data_parallel
