#include "tools/site/figures/collective_play.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::site {
namespace {

using collectives::CollectiveRequest;

/// The memory of one rank.
struct Memory {
  Cells data, input, scratch;

  Cells& operator[](comm::Buffer buffer) {
    return buffer == comm::Buffer::kData ? data : buffer == comm::Buffer::kInput ? input : scratch;
  }
};

/// A lane of a rank, and which step of it is under way.
struct Progress {
  const comm::Lane* lane = nullptr;
  std::size_t step = 0;
  bool sent = false;
  bool received = false;

  [[nodiscard]] const comm::Round* current() const {
    return step < lane->size() ? &(*lane)[step] : nullptr;
  }
  [[nodiscard]] bool wants_to_send() const {
    return current() != nullptr && current()->send_to != comm::kNobody && !sent;
  }
  [[nodiscard]] bool wants_to_receive() const {
    return current() != nullptr && current()->receive_from != comm::kNobody && !received;
  }
};

/// The elements that a rank brings to the operation.
Range brought_by(OpKind op, const CollectiveRequest& request, int rank) {
  const Range whole = request.chunks.whole();
  switch (op) {
    case OpKind::kBroadcast:
    case OpKind::kScatter:
      return rank == request.root ? whole : Range{};
    case OpKind::kGather:
    case OpKind::kAllGather:
      return request.chunks[rank];
    case OpKind::kAllToAll:
    case OpKind::kBarrier:
      return {};
    default:
      return whole;
  }
}

class Player {
 public:
  Player(OpKind op, const collectives::NamedAlgorithm& algorithm, int ranks, std::size_t elements,
         const collectives::Tuning& tuning) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto request =
          CollectiveRequest::of(op, comm::Group::all(rank, ranks), elements, tuning);
      if (rank == 0) expect_suits(algorithm, request);
      schedules_.push_back(algorithm.schedule(request));
      memories_.push_back(memory_of(op, request, rank));
    }
    for (const comm::Schedule& schedule : schedules_) {
      lanes_.emplace_back();
      for (const comm::Lane& lane : schedule.lanes) lanes_.back().push_back({.lane = &lane});
    }
  }

  CollectivePlay play() {
    CollectivePlay played{.at_first = data()};
    copy_locally();
    for (;;) {
      const std::vector<PlayedMessage> messages = possible_messages();
      if (messages.empty()) break;
      deliver(messages);
      advance();
      copy_locally();
      played.rounds.push_back({messages, data()});
    }
    ensure(is_over(), "all ranks of a collective come to the end of their steps");
    return played;
  }

 private:
  static void expect_suits(const collectives::NamedAlgorithm& algorithm,
                           const CollectiveRequest& request) {
    if (const std::string reason = algorithm.why_not(request); !reason.empty()) {
      throw ConfigError(fmt::format("{} does not suit: {}.", algorithm.name, reason));
    }
  }

  [[nodiscard]] Memory memory_of(OpKind op, const CollectiveRequest& request, int rank) const {
    const auto bit = std::uint32_t{1} << static_cast<unsigned>(rank);
    const std::size_t count = request.chunks.whole().end;
    Memory memory{.data = Cells(count), .scratch = Cells(schedules_.back().scratch_count)};
    const Range brought = brought_by(op, request, rank);
    for (std::size_t i = brought.begin; i < brought.end; ++i) memory.data[i] = Cell{i, bit};
    if (op == OpKind::kAllToAll) {
      for (std::size_t i = 0; i < count; ++i) memory.input.push_back(Cell{i, bit});
    }
    return memory;
  }

  [[nodiscard]] std::vector<Cells> data() const {
    std::vector<Cells> all;
    for (const Memory& memory : memories_) all.push_back(memory.data);
    return all;
  }

  /// The steps that ranks take with themselves, up to the next message of each lane.
  void copy_locally() {
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
      for (Progress& progress : lanes_[rank]) {
        while (progress.current() != nullptr &&
               progress.current()->send_to == static_cast<int>(rank)) {
          const comm::Round& step = *progress.current();
          put(rank, step.receive, taken(rank, step.send),
              step.on_receive == comm::OnReceive::kReduce);
          ++progress.step;
        }
      }
    }
  }

  [[nodiscard]] std::vector<PlayedMessage> possible_messages() const {
    std::vector<PlayedMessage> messages;
    for (std::size_t from = 0; from < lanes_.size(); ++from) {
      for (std::size_t lane = 0; lane < lanes_[from].size(); ++lane) {
        const Progress& sender = lanes_[from][lane];
        if (!sender.wants_to_send()) continue;
        const int to = sender.current()->send_to;
        const Progress& receiver = lanes_[static_cast<std::size_t>(to)].at(lane);
        if (!receiver.wants_to_receive() ||
            receiver.current()->receive_from != static_cast<int>(from)) {
          continue;
        }
        const comm::Round& taking = *receiver.current();
        messages.push_back({.from = static_cast<int>(from),
                            .to = to,
                            .lane = lane,
                            .sent = sender.current()->send,
                            .received = taking.receive,
                            .reduces = taking.on_receive == comm::OnReceive::kReduce});
      }
    }
    return messages;
  }

  void deliver(const std::vector<PlayedMessage>& messages) {
    std::vector<Cells> contents;
    for (const PlayedMessage& message : messages) {
      contents.push_back(taken(static_cast<std::size_t>(message.from), message.sent));
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const PlayedMessage& message = messages[i];
      put(static_cast<std::size_t>(message.to), message.received, contents[i], message.reduces);
      lanes_[static_cast<std::size_t>(message.from)][message.lane].sent = true;
      lanes_[static_cast<std::size_t>(message.to)][message.lane].received = true;
    }
  }

  void advance() {
    for (std::vector<Progress>& lanes : lanes_) {
      for (Progress& progress : lanes) {
        if (progress.current() == nullptr) continue;
        if (progress.wants_to_send() || progress.wants_to_receive()) continue;
        progress = {.lane = progress.lane, .step = progress.step + 1};
      }
    }
  }

  Cells taken(std::size_t rank, const comm::Block& block) {
    const Cells& cells = memories_[rank][block.buffer];
    Cells found;
    for (std::size_t i = block.range.begin; i < block.range.end; ++i) found.push_back(cells.at(i));
    return found;
  }

  void put(std::size_t rank, const comm::Block& block, const Cells& content, bool reduces) {
    Cells& cells = memories_[rank][block.buffer];
    for (std::size_t i = 0; i < content.size(); ++i) {
      std::optional<Cell>& cell = cells.at(block.range.begin + i);
      if (reduces && cell && content[i]) {
        ensure((cell->summands & content[i]->summands) == 0, "nothing is added twice");
        cell->summands |= content[i]->summands;
      } else {
        cell = content[i];
      }
    }
  }

  [[nodiscard]] bool is_over() const {
    for (const std::vector<Progress>& lanes : lanes_) {
      for (const Progress& progress : lanes) {
        if (progress.current() != nullptr) return false;
      }
    }
    return true;
  }

  std::vector<comm::Schedule> schedules_;
  std::vector<Memory> memories_;
  std::vector<std::vector<Progress>> lanes_;  // by rank
};

}  // namespace

CollectivePlay play(OpKind op, const collectives::NamedAlgorithm& algorithm, int ranks,
                    std::size_t elements, const collectives::Tuning& tuning) {
  if (ranks < 1 || ranks > kMostPlayers) {
    throw ConfigError(
        fmt::format("{} ranks cannot be played: choose 1 to {}.", ranks, kMostPlayers));
  }
  return Player(op, algorithm, ranks, elements, tuning).play();
}

}  // namespace ultra::site
