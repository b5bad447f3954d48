#include "chapters/11_five_d/stepper/step_through.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/units.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::stepper {
namespace {

using tensor_parallel::PartKind;

constexpr const char* kFlag = "--step-through";
constexpr const char* kJsonFlag = "--step-through-json";

// Text --------------------------------------------------------------------------------------------

/// What a deed is in words, the same for ranks that do the same.
std::string told(const RankStory& story, const Deed& deed) {
  std::string text = deed.phase;
  if (deed.part) text += fmt::format(", {}", story.parts[*deed.part].name);
  switch (deed.kind) {
    case DeedKind::kWork:
      return fmt::format("{}: {}", text, fmt::join(deed.works, "; "));
    case DeedKind::kExchange:
      return fmt::format("{}: {} in {} of {}{}{}, each sends {}", text,
                         gpu::to_string(deed.exchange), deed.group.name, deed.group.members.size(),
                         deed.label.empty() ? "" : ": ", deed.label, format_bytes(deed.sent_bytes));
    case DeedKind::kSend:
      return fmt::format("{}: sends {} to rank {}", text, format_bytes(deed.bytes), deed.peer);
    case DeedKind::kReceive:
      return fmt::format("{}: has {} from rank {}", text, format_bytes(deed.bytes), deed.peer);
  }
  throw InternalError("a deed of no kind");
}

// JSON --------------------------------------------------------------------------------------------

Json to_json(const Range& range) { return Json::array({range.begin, range.end}); }

Json to_json(const std::vector<Range>& ranges) {
  Json list = Json::array();
  for (const Range& range : ranges) list.push_back(to_json(range));
  return list;
}

Json extents(const Shape& shape) {
  Json list = Json::array();
  for (int d = 0; std::cmp_less(d, shape.rank()); ++d) list.push_back(shape[d]);
  return list;
}

Json to_json(const std::vector<HeldTensor>& tensors) {
  Json list = Json::array();
  for (const HeldTensor& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"shape", extents(tensor.shape)},
                    {"rows", to_json(tensor.rows)},
                    {"columns", to_json(tensor.columns)},
                    {"width", tensor.width}});
  }
  return list;
}

const char* name_of(PartKind kind) {
  switch (kind) {
    case PartKind::kEmbedding:
      return "embedding";
    case PartKind::kNorm:
      return "norm";
    case PartKind::kColumnLinear:
      return "column_linear";
    case PartKind::kAttentionCore:
      return "attention_core";
    case PartKind::kRowLinear:
      return "row_linear";
    case PartKind::kLoss:
      return "loss";
  }
  throw InternalError("a part of no kind");
}

Json to_json(const PartPass& part) {
  const bool forward = part.pass == tensor_parallel::Pass::kForward;
  return {{"name", part.name},
          {"kind", name_of(part.kind)},
          {"pass", forward ? "forward" : "backward"},
          {"sequences", to_json(part.sequences)},
          {"inputs", to_json(part.inputs)},
          {"outputs", to_json(part.outputs)},
          {"weights", part.weights}};
}

Json to_json(const Deed& deed) {
  Json json = {{"phase", deed.phase}, {"in_use", deed.in_use}};
  if (deed.part) json["part"] = *deed.part;
  switch (deed.kind) {
    case DeedKind::kWork:
      json["works"] = deed.works;
      json["flop"] = deed.flop;
      return json;
    case DeedKind::kExchange:
      json["exchange"] = gpu::to_string(deed.exchange);
      json["members"] = deed.group.members;
      json["label"] = deed.label;
      break;
    case DeedKind::kSend:
      json["to"] = deed.peer;
      break;
    case DeedKind::kReceive:
      json["from"] = deed.peer;
      break;
  }
  json["group"] = deed.group.name;
  json["bytes"] = deed.bytes;
  json["sent_bytes"] = deed.sent_bytes;
  return json;
}

Json to_json(const RankStory& story) {
  Json place = Json::object();
  for (const auto& [axis, position] : story.place) place[axis] = position;
  Json weights = Json::array();
  for (const HeldWeight& weight : story.weights) {
    weights.push_back({{"name", weight.name},
                       {"whole", extents(weight.whole)},
                       {"held", to_json(weight.held)},
                       {"updated", weight.updated}});
  }
  Json parts = Json::array();
  for (const PartPass& part : story.parts) parts.push_back(to_json(part));
  Json deeds = Json::array();
  for (const Deed& deed : story.deeds) deeds.push_back(to_json(deed));
  return {{"rank", story.rank},
          {"place", std::move(place)},
          {"sequences", to_json(story.sequences)},
          {"positions", to_json(story.positions)},
          {"layers", to_json(story.layers)},
          {"weights", std::move(weights)},
          {"parts", std::move(parts)},
          {"deeds", std::move(deeds)}};
}

// The flags ---------------------------------------------------------------------------------------

class StepThrough : public train::Technique {
 public:
  explicit StepThrough(train::MakeTechniques techniques) : techniques_(std::move(techniques)) {}

  /// The step that it tells is recorded by a setup of its own: this one only answers.
  std::vector<std::string> rewrite(std::vector<std::string> words) const override {
    const auto is_own = [](const std::string& word) {
      return train::is_flag(word, kFlag) || train::is_flag(word, kJsonFlag);
    };
    if (std::ranges::none_of(words, is_own)) return words;
    recorded_ = words;
    std::erase_if(recorded_, is_own);
    const auto on = std::ranges::find_if(
        words, [](const std::string& word) { return train::is_flag(word, train::kOnFlag); });
    has_machine_ = on != words.end();
    if (!has_machine_) return words;
    const bool has_value_behind =
        *on == train::kOnFlag && on + 1 != words.end() && !(on + 1)->starts_with("--");
    words.erase(on, on + (has_value_behind ? 2 : 1));
    return words;
  }
  void add_flags(CLI::App& app, train::Setup&) override {
    const train::Flags flags(app, "Step by step");
    flags.add_switch(kFlag, asked_,
                     "with --on: tell what each rank has, computes and sends in a step, part by "
                     "part, instead of training");
    flags.add_switch(kJsonFlag, json_, "tell it as JSON");
  }
  void validate(train::Setup&) override {
    if (json_ && !asked_) {
      throw ConfigError(fmt::format("{} has no meaning without {}. Give both.", kJsonFlag, kFlag));
    }
    if (asked_ && !has_machine_) {
      throw ConfigError(fmt::format(
          "{} tells a step that is recorded, and needs --on: for example --on dgx-h100.", kFlag));
    }
  }
  std::vector<train::Question> questions() const override {
    if (!asked_) return {};
    return {{kFlag, train::Instead::kAnswer}};
  }
  std::optional<std::string> answer(const train::Setup&) const override {
    if (!asked_) return {};
    train::Setup setup = train::parse_setup(techniques_(), recorded_);
    const std::vector<RankStory> stories = tell_ranks(setup);
    const std::vector<Round> rounds = rounds_of(stories);
    return json_ ? stepper::to_json(setup, stories, rounds).dump() + "\n"
                 : to_text(stories, rounds);
  }

 private:
  train::MakeTechniques techniques_;
  mutable std::vector<std::string> recorded_;  // the words of the command line, but for its own
  mutable bool has_machine_ = false;
  bool asked_ = false;
  bool json_ = false;
};

}  // namespace

std::string to_text(const std::vector<RankStory>& stories, const std::vector<Round>& rounds) {
  std::string text;
  for (const RankStory& story : stories) {
    text += fmt::format("rank {}:", story.rank);
    for (const auto& [axis, position] : story.place) text += fmt::format(" {} {}", axis, position);
    std::vector<std::string> positions;
    for (const Range& run : story.positions) {
      positions.push_back(fmt::format("{} to {}", run.begin, run.end - 1));
    }
    text += fmt::format("; sequences {} to {}, tokens {}\n", story.sequences.begin,
                        story.sequences.end - 1, fmt::join(positions, " and "));
  }
  std::vector<std::size_t> sent(stories.size());
  std::size_t number = 0;
  for (const Round& round : rounds) {
    std::vector<std::pair<std::string, std::vector<int>>> lines;
    for (std::size_t rank = 0; rank < round.size(); ++rank) {
      if (!round[rank]) continue;
      const Deed& deed = stories[rank].deeds[*round[rank]];
      sent[rank] += deed.sent_bytes;
      std::string words = told(stories[rank], deed);
      auto found =
          std::ranges::find(lines, words, &std::pair<std::string, std::vector<int>>::first);
      if (found == lines.end()) found = lines.insert(lines.end(), {std::move(words), {}});
      found->second.push_back(stories[rank].rank);
    }
    text += fmt::format("\n{:>4}", ++number);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += fmt::format("{}  {} {}: {}", i == 0 ? "" : "\n    ",
                          lines[i].second.size() == 1 ? "rank" : "ranks",
                          fmt::join(lines[i].second, ","), lines[i].first);
    }
  }
  text += "\n\nsent in the step:";
  for (std::size_t rank = 0; rank < sent.size(); ++rank) {
    text += fmt::format(" rank {} {};", stories[rank].rank, format_bytes(sent[rank]));
  }
  text.back() = '\n';
  return text;
}

Json to_json(const train::Setup& setup, const std::vector<RankStory>& stories,
             const std::vector<Round>& rounds) {
  Json ranks = Json::array();
  for (const RankStory& story : stories) ranks.push_back(to_json(story));
  Json all = Json::array();
  for (const Round& round : rounds) {
    Json one = Json::array();
    for (const auto& deed : round) one.push_back(deed ? Json(*deed) : Json());
    all.push_back(std::move(one));
  }
  return {{"seq", setup.train.model.max_seq_len},
          {"global_batch", setup.train.global_batch},
          {"ranks", std::move(ranks)},
          {"rounds", std::move(all)}};
}

std::unique_ptr<train::Technique> technique(train::MakeTechniques techniques) {
  return std::make_unique<StepThrough>(std::move(techniques));
}

}  // namespace ultra::stepper
