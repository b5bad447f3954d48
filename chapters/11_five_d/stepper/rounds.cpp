#include <map>
#include <tuple>

#include "chapters/11_five_d/stepper/rank_story.hpp"
#include "common/base/errors.hpp"

namespace ultra::stepper {
namespace {

/// A message between two ranks: from, to, group, name.
using MessageKey = std::tuple<int, int, std::string, std::uint64_t>;

MessageKey key_of(int rank, const Deed& deed) {
  const bool sends = deed.kind == DeedKind::kSend;
  return {sends ? rank : deed.peer, sends ? deed.peer : rank, deed.group.name, deed.number};
}

class Play {
 public:
  explicit Play(const std::vector<RankStory>& stories)
      : stories_(stories), next_(stories.size(), 0) {}

  std::vector<Round> run() {
    std::vector<Round> rounds;
    while (!is_over()) {
      const Round& round = rounds.emplace_back(next_round());
      bool goes_on = false;
      for (std::size_t rank = 0; rank < round.size(); ++rank) {
        if (!round[rank]) continue;
        goes_on = true;
        ++next_[rank];
        const Deed& deed = stories_[rank].deeds[*round[rank]];
        if (deed.kind == DeedKind::kSend) ++on_the_way_[key_of(stories_[rank].rank, deed)];
        if (deed.kind == DeedKind::kReceive) --on_the_way_[key_of(stories_[rank].rank, deed)];
      }
      ensure(goes_on, "ranks whose step was recorded do not wait for each other");
    }
    return rounds;
  }

 private:
  [[nodiscard]] bool is_over() const {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] < stories_[rank].deeds.size()) return false;
    }
    return true;
  }

  [[nodiscard]] const Deed* next_of(std::size_t rank) const {
    const std::vector<Deed>& deeds = stories_[rank].deeds;
    return next_[rank] < deeds.size() ? &deeds[next_[rank]] : nullptr;
  }

  [[nodiscard]] bool is_ready(std::size_t rank) const {
    const Deed& deed = *next_of(rank);
    if (deed.kind == DeedKind::kReceive) {
      const auto found = on_the_way_.find(key_of(stories_[rank].rank, deed));
      return found != on_the_way_.end() && found->second > 0;
    }
    if (deed.kind != DeedKind::kExchange) return true;
    for (const int member : deed.group.members) {
      const Deed* const other = next_of(static_cast<std::size_t>(member));
      const bool is_there = other != nullptr && other->kind == DeedKind::kExchange &&
                            other->group == deed.group && other->number == deed.number;
      if (!is_there) return false;
    }
    return true;
  }

  [[nodiscard]] Round next_round() const {
    Round round(next_.size());
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_of(rank) != nullptr && is_ready(rank)) round[rank] = next_[rank];
    }
    return round;
  }

  const std::vector<RankStory>& stories_;
  std::vector<std::size_t> next_;
  std::map<MessageKey, int> on_the_way_;
};

}  // namespace

std::vector<Round> rounds_of(const std::vector<RankStory>& stories) { return Play(stories).run(); }

}  // namespace ultra::stepper
