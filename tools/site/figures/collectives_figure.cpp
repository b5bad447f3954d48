// Collectives: played step by step, and what they cost on a machine, which is chapter 02's
// `--simulate MACHINE --simulate-json`.
#include "chapters/02_collectives/simulator/closed_form.hpp"
#include "chapters/02_collectives/simulator/simulate_report.hpp"
#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "tools/site/figures/collective_play.hpp"
#include "tools/site/figures/figure.hpp"

namespace ultra::site {
namespace {

using namespace collectives;

/// Elements that a page can show.
constexpr std::size_t kMostElements = 256;

/// Ranks that a page simulates while its reader waits.
constexpr int kMostRanks = 256;

Json to_json(const std::vector<Cells>& ranks) {
  Json all = Json::array();
  for (const Cells& cells : ranks) {
    Json rank = Json::array();
    for (const auto& cell : cells) {
      rank.push_back(cell ? Json{cell->element, cell->summands} : Json());
    }
    all.push_back(std::move(rank));
  }
  return all;
}

Json to_json(const PlayedMessage& message) {
  return {{"from", message.from},
          {"to", message.to},
          {"lane", message.lane},
          {"elements", {message.sent.range.begin, message.sent.range.end}},
          {"into", {message.received.range.begin, message.received.range.end}},
          {"into_data", message.received.buffer == comm::Buffer::kData},
          {"reduces", message.reduces}};
}

/// The operations and their algorithms, for menus.
Json menu() {
  Json ops = Json::array();
  for (const OpKind op : collective_ops()) {
    Json names = Json::array();
    for (const NamedAlgorithm& algorithm : algorithms(op)) {
      names.push_back({{"name", algorithm.name}, {"summary", algorithm.summary}});
    }
    ops.push_back({{"op", to_string(op)}, {"algorithms", std::move(names)}});
  }
  return {{"ops", std::move(ops)}};
}

Json player(const Json& question) {
  const OpKind op = parse_collective(value_of<std::string>(question, "op", "all_reduce"));
  const auto& algorithm = find_algorithm(op, value_of<std::string>(question, "algorithm", "ring"));
  const int ranks = value_of<int>(question, "ranks", 4);
  const auto elements =
      value_of<std::size_t>(question, "elements", static_cast<std::size_t>(ranks));
  if (elements > kMostElements) {
    throw ConfigError(
        fmt::format("{} elements cannot be shown: choose at most {}.", elements, kMostElements));
  }
  const int nodes = value_of(question, "nodes", 1);
  const Topology machine =
      parse_topology(fmt::format("nodes={},gpus={},nics=1", nodes, ranks / std::max(1, nodes)));
  Tuning tuning = tuning_for(algorithm.name, machine);
  tuning.segments = value_of<int>(question, "segments", 0);
  const CollectivePlay played = play(op, algorithm, ranks, elements, tuning);
  Json rounds = Json::array();
  for (const PlayedRound& round : played.rounds) {
    Json messages = Json::array();
    for (const PlayedMessage& message : round.messages) messages.push_back(to_json(message));
    rounds.push_back({{"messages", std::move(messages)}, {"data", to_json(round.data)}});
  }
  return {{"op", to_string(op)},          {"algorithm", algorithm.name},
          {"summary", algorithm.summary}, {"ranks", ranks},
          {"elements", elements},         {"at_first", to_json(played.at_first)},
          {"rounds", std::move(rounds)}};
}

Json costs(const Json& question) {
  const Topology machine = parse_topology(value_of<std::string>(question, "machine", "h100"));
  if (machine.ranks() > kMostRanks) {
    throw ConfigError(fmt::format(
        "{} ranks take too long in a browser: choose at most {}, or ./workbook run 02 --simulate.",
        machine.ranks(), kMostRanks));
  }
  const SimulationRequest request{
      .topology = machine,
      .op = parse_collective(value_of<std::string>(question, "op", "all_reduce")),
      .algorithms = value_of<std::vector<std::string>>(question, "algorithms", {}),
      .sizes = question.at("sizes").get<std::vector<std::size_t>>()};
  return simulation_to_json(simulate_collective(request));
}

}  // namespace

Json answer(const Json& question) {
  const auto kind = question.at("figure").get<std::string>();
  if (kind == "player") return player(question);
  if (kind == "costs") return costs(question);
  return menu();
}

}  // namespace ultra::site
