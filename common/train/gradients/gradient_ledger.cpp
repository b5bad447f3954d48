#include "common/train/gradients/gradient_ledger.hpp"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::train {
namespace {

/// Who follows a parameter, and as which of its own.
struct Follower {
  GradientExchange* exchange = nullptr;  // null: nobody
  std::size_t number = 0;
};

std::unordered_map<const nn::Parameter*, Follower> followers_in(
    const std::vector<FollowedGradients>& followed) {
  std::unordered_map<const nn::Parameter*, Follower> followers;
  for (const FollowedGradients& group : followed) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      followers.emplace(group.parameters[i], Follower{.exchange = group.exchange, .number = i});
    }
  }
  return followers;
}

}  // namespace

GradientLedger::GradientLedger(std::vector<nn::Model*> chunks,
                               std::vector<FollowedGradients> followed, CompletionRule rule)
    : chunks_(std::move(chunks)), rule_(std::move(rule)), of_chunk_(chunks_.size()) {
  for (const FollowedGradients& group : followed) exchanges_.push_back(group.exchange);
  auto followers = followers_in(followed);
  std::map<nn::Parameter*, std::size_t> known;
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    for (nn::Parameter* parameter : chunks_[chunk]->parameters()) {
      if (parameter->is_frozen()) continue;
      const auto [at, is_new] = known.emplace(parameter, entries_.size());
      of_chunk_[chunk].push_back(at->second);
      if (!is_new) {
        entries_[at->second].chunks.push_back(chunk);
        continue;
      }
      const auto [exchange, number] = followers[parameter];
      entries_.push_back({parameter, exchange, number, {chunk}});
      hooks_.push_back(
          parameter->on_grad_ready([this, entry = at->second](nn::Parameter&) { added(entry); }));
    }
  }
}

void GradientLedger::step_begins(std::span<const Action> schedule) {
  schedule_.assign(schedule.begin(), schedule.end());
  for (Entry& entry : entries_) {
    entry.completing = rule_ ? rule_(schedule_, entry.chunks) : schedule_.size();
  }
  for (GradientExchange* exchange : exchanges_) exchange->step_begins();
}

void GradientLedger::tell_actions(void (GradientExchange::*what)(std::size_t chunk)) {
  for (GradientExchange* exchange : exchanges_) (exchange->*what)(schedule_[action_].chunk);
}

void GradientLedger::action_begins(std::size_t action) {
  action_ = action;
  counts_ = schedule_.at(action).makes_gradients();
  if (!counts_) return;
  for (const std::size_t entry : of_chunk_[schedule_[action].chunk]) entries_[entry].made = 0;
  tell_actions(&GradientExchange::action_begins);
}

std::size_t GradientLedger::uses(const Entry& entry) const {
  return chunks_[schedule_[action_].chunk]->uses(*entry.parameter);
}

void GradientLedger::added(std::size_t number) {
  if (!counts_) return;  // not a step's
  Entry& entry = entries_[number];
  const std::size_t expected = uses(entry);
  if (++entry.made > expected) {
    throw ConfigError(
        fmt::format("{} got two gradients in one backward pass: its bucket may be on its way "
                    "already. A model uses each parameter once, or says how often.",
                    entry.parameter->name()));
  }
  if (entry.made < expected || entry.exchange == nullptr) return;
  entry.exchange->contributed(entry.number);
  if (action_ == entry.completing) entry.exchange->completed(entry.number);
}

void GradientLedger::add_zeros(Entry& entry) {
  while (entry.made < uses(entry)) {
    entry.parameter->add_grad([](const Tensor& grad, ops::Write write) {
      if (write == ops::Write::kOverwrite) grad.fill(0.0);
    });
  }
}

void GradientLedger::action_ends() {
  if (!counts_) return;
  // Backwards, as a backward pass makes them.
  const std::vector<std::size_t>& entries = of_chunk_[schedule_[action_].chunk];
  for (std::size_t i = entries.size(); i-- > 0;) {
    Entry& entry = entries_[entries[i]];
    if (entry.made == uses(entry)) continue;
    if (!entry.parameter->may_be_idle()) {
      throw ConfigError(fmt::format(
          "{} got no gradient in {}: every backward pass must use every parameter that is not said "
          "to be idle at times",
          entry.parameter->name(), schedule_[action_].str()));
    }
    add_zeros(entry);
  }
  tell_actions(&GradientExchange::action_ends);
  counts_ = false;
}

void GradientLedger::step_ends() {
  if (rule_) return;
  for (Entry& entry : entries_) {
    if (entry.exchange != nullptr) entry.exchange->completed(entry.number);
  }
}

}  // namespace ultra::train
