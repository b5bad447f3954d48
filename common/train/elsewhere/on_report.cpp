#include "common/train/elsewhere/on_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/json.hpp"
#include "common/base/numeric.hpp"
#include "common/base/units.hpp"
#include "common/replay/replay.hpp"
#include "common/trace/trace_recorder.hpp"

namespace ultra::train {
namespace {

using gpu::WorkKind;

std::string types_of(const nn::Precision& types) {
  std::string text(to_string(types.compute));
  if (types.gradients != types.compute) {
    text += fmt::format(", gradients {}", to_string(types.gradients));
  }
  if (types.has_master_weights()) {
    text += fmt::format(", master weights {}", to_string(types.optimizer));
  }
  return text;
}

std::string recorded_text(const std::vector<RecordedRank>& ranks, int all) {
  if (all == 1) return "recorded: the rank";
  if (ranks.size() == 1)
    return fmt::format("recorded: rank {}, which stands for all", ranks[0].rank);
  if (std::cmp_equal(ranks.size(), all)) return "recorded: all ranks";
  return fmt::format("recorded: {} ranks, each of which stands for its fellows", ranks.size());
}

std::string heading_of(const Setup& setup, const replay::Cluster& cluster,
                       const std::vector<RecordedRank>& ranks, int all) {
  const TrainOptions& train = setup.train;
  const auto nodes =
      ceil_div(static_cast<std::size_t>(all), static_cast<std::size_t>(cluster.gpus_per_node));
  return fmt::format("{} parameters{} in {}\n{} on {} node{} of {} {} ({}); {}\n",
                     format_count(ranks.front().parameters),
                     train.model_name.empty() ? "" : fmt::format(" ({})", train.model_name),
                     types_of(train.formats()), setup.mesh_shape(all).str(), nodes,
                     nodes == 1 ? "" : "s", std::min(all, cluster.gpus_per_node), cluster.gpu.name,
                     cluster.name, recorded_text(ranks, all));
}

OnMemory memory_of(const RecordedRank& rank) {
  MemoryUsage highest;
  for (const MemoryCategory category : kMemoryCategories) {
    highest.bytes[static_cast<std::size_t>(category)] = rank.memory.peak(category).bytes;
  }
  return {.rank = rank.rank,
          .place = rank.place,
          .at_peak = rank.memory.usage_at_peak(),
          .highest = highest,
          .phase = rank.memory.peak_total().phase,
          .reserved = rank.reserved_bytes};
}

double busy(const replay::ReplayedRank& rank, WorkKind kind) {
  return rank.busy[static_cast<std::size_t>(kind)];
}

/// Seconds of the optimizer's phase, and of all others that are no product and no attention.
void add_elements(OnReport& report, const replay::ReplayedRank& rank) {
  for (const replay::ReplayedPhase& phase : rank.phases) {
    double& to = phase.name.ends_with("optimizer") ? report.update : report.elementwise;
    for (const WorkKind kind : {WorkKind::kElementwise, WorkKind::kCopy, WorkKind::kHostCopy}) {
      to += phase.busy[static_cast<std::size_t>(kind)];
    }
  }
}

double flop_of(const gpu::Tape& tape) {
  double flop = 0;
  for (const gpu::TapedWork& work : tape.works) flop += work.flop;
  return flop;
}

/// FLOP of all ranks: each recorded one counts for those it stands for.
double flop_of_all(const std::vector<RecordedRank>& ranks, int all) {
  double flop = 0;
  for (const RecordedRank& rank : ranks) flop += flop_of(*rank.tape);
  return flop * all / static_cast<double>(ranks.size());
}

/// The labels that cost most: "output 0.21, loss 0.01".
std::string dearest(std::vector<std::pair<std::string, double>> labels) {
  constexpr std::size_t kShown = 3;
  constexpr double kLeast = 0.0005;
  std::ranges::sort(labels, std::ranges::greater(), &std::pair<std::string, double>::second);
  std::string text;
  for (std::size_t i = 0; i < std::min(labels.size(), kShown); ++i) {
    if (labels[i].second < kLeast || labels[i].first.empty()) continue;
    text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", labels[i].first, labels[i].second);
  }
  return text;
}

std::vector<OnExchanges> exchanges_of(const replay::ReplayedRank& rank) {
  std::map<std::string, OnExchanges> groups;
  std::map<std::string, std::vector<std::pair<std::string, double>>> labels;
  for (const replay::ReplayedExchanges& some : rank.exchanges) {
    OnExchanges& of = groups[some.group];
    of.times += some.times;
    of.bytes += some.sent_bytes;
    of.seconds += some.seconds;
    of.waited += some.waited;
    labels[some.group].emplace_back(some.label, some.waited);
  }
  std::vector<OnExchanges> list;
  for (auto& [name, of] : groups) {
    if (of.bytes == 0) continue;  // a rank alone in its group
    of.group = name;
    of.waited_for = dearest(std::move(labels[name]));
    list.push_back(std::move(of));
  }
  return list;
}

OnExchanges messages_of(const gpu::Tape& tape, double waited) {
  OnExchanges of{.group = std::string(kMessages), .waited = waited};
  for (const gpu::TapedMessage& message : tape.messages) {
    if (!message.sends) continue;
    ++of.times;
    of.bytes += static_cast<double>(message.bytes);
  }
  return of;
}

std::string share(double part, double whole) {
  return fmt::format("{:.0f} % of the step", 100 * part / whole);
}

double as_double(std::size_t bytes) { return static_cast<double>(bytes); }

Json by_category(const MemoryUsage& usage) {
  Json bytes;
  for (const MemoryCategory category : kMemoryCategories) {
    bytes[std::string(to_string(category))] = usage[category];
  }
  return bytes;
}

/// The largest of what is no product: what a reader would change first.
std::string holding_back(const OnReport& report) {
  std::vector<std::pair<double, std::string>> costs = {
      {report.stage, "waiting for other stages"},
      {report.host, "waiting for the host"},
      {report.streams, "waiting for copies and sums beside it"},
      {report.attention, "attention"},
      {report.elementwise, "reading and writing memory between the products"},
      {report.update, "the update of the weights"}};
  for (const OnExchanges& of : report.exchanges) {
    if (of.group == kMessages) continue;
    costs.emplace_back(of.waited, fmt::format("waiting for exchanges of {}", of.group));
  }
  const auto& [seconds, what] = *std::ranges::max_element(costs);
  return fmt::format("  Beside its products, it is held back most by {}: {}.\n", what,
                     share(seconds, report.seconds));
}

}  // namespace

double OnReport::exchanges_waited() const {
  double waited = 0;
  for (const OnExchanges& of : exchanges) {
    if (of.group != kMessages) waited += of.waited;
  }
  return waited;
}

OnReport price(const Setup& setup, const replay::Cluster& cluster,
               const std::vector<RecordedRank>& ranks, replay::Spans spans) {
  const int all = setup.ranks();
  replay::Prices prices{.cluster = cluster, .exchange = {}};
  for (const auto& technique : setup.techniques) {
    if (auto found = technique->exchange_price()) prices.exchange = std::move(found);
  }
  if (!prices.exchange) prices.exchange = [](auto&&...) { return 0.0; };  // of one rank
  std::vector<replay::RankTape> tapes;
  for (const RecordedRank& rank : ranks) tapes.push_back({rank.rank, rank.tape.get()});
  std::vector<replay::ReplayedRank> replayed = replay::replay(tapes, prices, spans);
  const auto slowest =
      std::ranges::max_element(replayed, {}, &replay::ReplayedRank::seconds) - replayed.begin();
  const replay::ReplayedRank& rank = replayed[static_cast<std::size_t>(slowest)];
  const gpu::Tape& tape = *ranks[static_cast<std::size_t>(slowest)].tape;

  OnReport report{
      .heading = heading_of(setup, cluster, ranks, all),
      .ranks = all,
      .parameters = ranks.front().parameters,
      .memory_bytes = cluster.gpu.memory_bytes,
      .slowest = rank.rank,
      .seconds = rank.seconds * replay::straggler_slowdown(cluster, static_cast<std::size_t>(all)),
      .tokens = ranks.front().tokens,
      .flop = flop_of_all(ranks, all),
      .peak_flops = replay::peak_flops(cluster.gpu, size_of(setup.train.formats().compute)),
      .products = busy(rank, WorkKind::kProduct),
      .attention = busy(rank, WorkKind::kAttention),
      .streams = rank.for_streams,
      .stage = rank.for_a_stage,
      .host = rank.for_the_host};
  for (const RecordedRank& recorded : ranks) report.memory.push_back(memory_of(recorded));
  report.formulas = setup.formulas();
  add_elements(report, rank);
  report.exchanges = exchanges_of(rank);
  if (OnExchanges messages = messages_of(tape, rank.for_a_stage); messages.times > 0) {
    report.exchanges.push_back(std::move(messages));
  }
  report.replayed = std::move(replayed);
  return report;
}

std::string timeline_of(const OnReport& report) {
  constexpr double kMicroseconds = 1e6;
  std::vector<std::string> timelines;
  for (const replay::ReplayedRank& rank : report.replayed) {
    trace::TraceRecorder recorder(rank.rank);
    for (const replay::Span& span : rank.spans) {
      recorder.add_span(span.track,
                        span.phase.empty() ? std::string(span.name)
                                           : fmt::format("{} ({})", span.name, span.phase),
                        span.begin * kMicroseconds, span.end * kMicroseconds);
    }
    timelines.push_back(recorder.events());
  }
  return trace::join_timelines(timelines);
}

std::string to_text(const OnReport& report) {
  std::string text = report.heading;
  const auto gb = [](double bytes) { return bytes / kGB; };
  text += "\n  memory, GB";
  for (const MemoryCategory category : kMemoryCategories) {
    text += fmt::format("  {:>13}", to_string(category));
  }
  text += fmt::format("  {:>9}  {:>6}\n", "together", "of");
  for (const OnMemory& rank : report.memory) {
    text += fmt::format("  {:<10}", fmt::format("rank {}", rank.rank));
    for (const MemoryCategory category : kMemoryCategories) {
      text += fmt::format("  {:>13.2f}", gb(as_double(rank.at_peak[category])));
    }
    text += fmt::format("  {:>9.2f}  {:>6.1f}  highest in {}{}\n",
                        gb(as_double(rank.at_peak.total())), gb(report.memory_bytes), rank.phase,
                        rank.place.empty() ? "" : fmt::format(" ({})", rank.place));
  }
  for (const Formula& formula : report.formulas) {
    text += fmt::format("  by {:<7}", formula.exercise);
    for (const MemoryCategory category : kMemoryCategories) {
      const auto& bytes = formula[category];
      text += fmt::format("  {:>13}", bytes ? fmt::format("{:.2f}", gb(as_double(*bytes))) : "-");
    }
    text += "                     each at its highest\n";
  }
  const double tokens_per_second = static_cast<double>(report.tokens) / report.seconds;
  text += fmt::format(
      "\n  a step: {}, {} tokens/s, {:.2f} of the GPUs' peak\n", format_seconds(report.seconds),
      format_count(static_cast<std::uint64_t>(tokens_per_second)), report.part_of_peak());
  const double waits = report.stage + report.streams + report.host + report.exchanges_waited();
  text += fmt::format(
      "    of rank {}, in seconds: products {:.3f}, attention {:.3f}, elementwise {:.3f}, update "
      "{:.3f}, waits {:.3f}\n",
      report.slowest, report.products, report.attention, report.elementwise, report.update, waits);
  if (!report.exchanges.empty()) {
    text += fmt::format("\n  {:<14}  {:>7}  {:>9}  {:>9}  {:>10}\n", "exchanges", "times",
                        "sent, GB", "seconds", "waited for");
  }
  for (const OnExchanges& of : report.exchanges) {
    text +=
        fmt::format("  {:<14}  {:>7}  {:>9.3f}  {:>9}  {:>10.3f}{}\n", of.group, of.times,
                    gb(of.bytes), of.group == kMessages ? "" : fmt::format("{:.3f}", of.seconds),
                    of.waited, of.waited_for.empty() ? "" : "  " + of.waited_for);
  }
  return text + "\n" + holding_back(report);
}

Json to_json(const OnReport& report) {
  Json memory = Json::array();
  for (const OnMemory& rank : report.memory) {
    memory.push_back({{"rank", rank.rank},
                      {"place", rank.place},
                      {"bytes", by_category(rank.at_peak)},
                      {"highest_bytes", by_category(rank.highest)},
                      {"total", rank.at_peak.total()},
                      {"reserved", rank.reserved},
                      {"highest_in", rank.phase}});
  }
  Json exchanges = Json::array();
  for (const OnExchanges& of : report.exchanges) {
    exchanges.push_back({{"group", of.group},
                         {"times", of.times},
                         {"sent_bytes", of.bytes},
                         {"seconds", of.seconds},
                         {"waited", of.waited}});
  }
  Json formulas = Json::object();
  for (const Formula& formula : report.formulas) {
    Json& bytes = formulas[formula.exercise] = Json::object();
    for (const MemoryCategory category : kMemoryCategories) {
      if (const auto& found = formula[category]) bytes[std::string(to_string(category))] = *found;
    }
  }
  return {{"ranks", report.ranks},
          {"parameters", report.parameters},
          {"memory_bytes", report.memory_bytes},
          {"memory", std::move(memory)},
          {"formulas", std::move(formulas)},
          {"seconds", report.seconds},
          {"tokens", report.tokens},
          {"flop", report.flop},
          {"peak_flops", report.peak_flops},
          {"slowest_rank", report.slowest},
          {"products", report.products},
          {"attention", report.attention},
          {"elementwise", report.elementwise},
          {"update", report.update},
          {"waits_for_stages", report.stage},
          {"waits_for_the_host", report.host},
          {"waits_for_streams", report.streams},
          {"exchanges", std::move(exchanges)}};
}

}  // namespace ultra::train
