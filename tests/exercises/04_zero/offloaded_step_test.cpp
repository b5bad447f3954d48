// Contract of exercise 04.9: some steps with actions that only take notes, and do what was begun as
// late as possible: a block is in its buffer, or out of it, when that is waited for, and not
// before.
#include "chapters/04_zero/offload/offloaded_step.hpp"

#include <fmt/ranges.h>

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

constexpr const char* kReadAhead =
    "the read of the next block begins before this one is waited for: it goes on while this one is "
    "updated.";
constexpr const char* kTooFar =
    "only the next block is read ahead: of three buffers one is read into, one updated, one "
    "written from.";
constexpr const char* kPlace = "block i stands in buffer i modulo kWindowBuffers.";
constexpr const char* kWaitLate =
    "a write is waited for when its buffer is needed again, not earlier: it goes on while the next "
    "block is updated.";
constexpr const char* kWriteEach =
    "every block is written when it is updated, the last one too: end_block begins that.";
constexpr const char* kOnce = "what was begun is waited for once.";
constexpr const char* kNextStep = "after end_step() the next block is 0 again: all are read again.";

/// Runs some steps and finds the first thing that is wrong.
class Trial {
 public:
  Trial(std::size_t blocks, std::size_t steps, std::size_t settle_every)
      : blocks_(blocks),
        steps_(steps),
        settle_every_(settle_every),
        stored_(blocks, 0),
        states_(blocks),
        step_(blocks,
              {.start_read = [this](std::size_t b, std::size_t to) { start_read(b, to); },
               .finish_read = [this](std::size_t b) { finish_read(b); },
               .start_write = [this](std::size_t b, std::size_t from) { start_write(b, from); },
               .finish_write = [this](std::size_t b) { finish_write(b); }}) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// What is wrong, with what was called before; empty when nothing is.
  std::string run() {
    for (done_ = 0; done_ < steps_ && problem_.empty(); ++done_) run_step();
    if (problem_.empty()) settle();
    if (problem_.empty()) return {};
    const std::size_t shown = std::min<std::size_t>(calls_.size(), 12);
    return fmt::format("{} blocks, step {}: {}\nThe last calls, and what they did:\n  {}\n",
                       blocks_, done_ + 1, problem_,
                       fmt::join(std::span(calls_).last(shown), "\n  "));
  }

 private:
  enum class State { kAway, kReading, kThere, kWriting };
  struct Block {
    State state = State::kAway;
    std::size_t reads = 0;  // begun in this step
    std::size_t value = 0;  // in the buffer, or on its way from it: steps that updated it
  };

  template <class... Args>
  void expect(bool holds, const char* hint, fmt::format_string<Args...> what, Args&&... args) {
    if (holds || !problem_.empty()) return;
    problem_ = fmt::format(what, std::forward<Args>(args)...) + "\nHint: " + hint;
  }

  bool is_block(std::size_t block) {
    expect(block < blocks_, kPlace, "there is no block {}", block);
    return problem_.empty();
  }

  // The actions -----------------------------------------------------------------------------------

  void start_read(std::size_t block, std::size_t buffer) {
    calls_.back() += fmt::format(" start_read({}, {})", block, buffer);
    if (!is_block(block)) return;
    expect(buffer == block % kWindowBuffers, kPlace, "block {} is read into {}", block, buffer);
    for (std::size_t other = buffer; other < blocks_; other += kWindowBuffers) {
      expect(states_[other].state == State::kAway,
             block > used_ + 1 ? kTooFar
                               : "a buffer is read into again only when the block that it held is "
                                 "written: wait for that write first.",
             "block {} is read into buffer {}, which block {} is {}", block, buffer, other,
             states_[other].state == State::kWriting ? "still being written from" : "in");
    }
    expect(block <= used_ + 1, kTooFar, "block {} is read before block {}", block, used_);
    expect(++states_[block].reads == 1, "every block is read once in each step.",
           "block {} is read again", block);
    states_[block].state = State::kReading;
  }

  void finish_read(std::size_t block) {
    calls_.back() += fmt::format(" finish_read({})", block);
    if (!is_block(block)) return;
    const bool ahead = used_ + 1 >= blocks_ || states_[used_ + 1].state == State::kReading;
    expect(states_[block].state == State::kReading,
           done_ > 0 && states_[block].reads == 0 ? kNextStep : kOnce,
           "block {} is waited for, but is not being read", block);
    expect(ahead, kReadAhead, "block {} is waited for, and block {} is not being read", block,
           used_ + 1);
    expect(block == used_, kReadAhead, "block {} is waited for before its turn", block);
    states_[block].state = State::kThere;
    states_[block].value = stored_[block];
  }

  void start_write(std::size_t block, std::size_t buffer) {
    calls_.back() += fmt::format(" start_write({}, {})", block, buffer);
    if (!is_block(block)) return;
    expect(states_[block].state == State::kThere && buffer == block % kWindowBuffers, kPlace,
           "block {} is written from buffer {}, where it is not", block, buffer);
    states_[block].state = State::kWriting;
  }

  void finish_write(std::size_t block) {
    calls_.back() += fmt::format(" finish_write({})", block);
    if (!is_block(block)) return;
    expect(states_[block].state == State::kWriting, kOnce,
           "the write of block {} is waited for, but is not under way", block);
    states_[block].state = State::kAway;
    stored_[block] = states_[block].value;
  }

  // A step ----------------------------------------------------------------------------------------

  void run_step() {
    for (Block& block : states_) block.reads = 0;
    for (std::size_t block = 0; block < blocks_ && problem_.empty(); ++block) update(block);
    if (!problem_.empty()) return;
    calls_.push_back("end_step():");
    step_.end_step();
    expect(calls_.back().find("finish_write") == std::string::npos,
           "end_step() waits for nothing: the last writes may end during the next passes.",
           "end_step() waits for a write");
    if (settle_every_ > 0 && (done_ + 1) % settle_every_ == 0) settle();
  }

  void update(std::size_t block) {
    used_ = block;
    Block& own = states_[block];
    calls_.push_back(fmt::format("begin_block({}):", block));
    const std::size_t buffer = step_.begin_block(block);
    expect(own.state == State::kThere && buffer == block % kWindowBuffers,
           done_ > 0 && own.reads == 0 ? kNextStep
                                       : "a block is in its buffer when begin_block returns: begin "
                                         "its read, and wait for it.",
           "block {} is updated in buffer {}, and is not there", block, buffer);
    expect(own.value == done_, kWriteEach, "block {} has its values of step {}", block, own.value);
    expect(block + 1 >= blocks_ || states_[block + 1].state == State::kReading, kReadAhead,
           "block {} is updated, and block {} is not being read", block, block + 1);
    expect(block == 0 || states_[block - 1].state == State::kWriting, kWaitLate,
           "block {} is updated, and block {} is not being written any more", block, block - 1);
    if (!problem_.empty()) return;
    own.value = done_ + 1;
    calls_.push_back(fmt::format("end_block({}):", block));
    step_.end_block(block);
    expect(own.state != State::kAway, kWaitLate, "the write of block {} is waited for at once",
           block);
    expect(own.state == State::kWriting, kWriteEach, "block {} is not being written", block);
  }

  void settle() {
    calls_.push_back("settle():");
    step_.settle();
    for (std::size_t block = 0; block < blocks_; ++block) {
      expect(states_[block].state != State::kWriting,
             "settle() waits for all writes that are still under way.",
             "block {} is still being written", block);
      expect(stored_[block] == std::min(done_ + 1, steps_), kWriteEach,
             "what is stored of block {} is of step {}", block, stored_[block]);
    }
  }

  std::size_t blocks_;
  std::size_t steps_;
  std::size_t settle_every_;
  std::vector<std::size_t> stored_;  // by block: steps that updated it
  std::vector<Block> states_;
  std::vector<std::string> calls_{""};
  std::string problem_;
  std::size_t done_ = 0;
  std::size_t used_ = 0;
  OffloadedStep step_;
};

TEST(OffloadedStep, ReadsUpdatesAndWritesAtTheSameTime) {
  for (std::size_t blocks = 0; blocks <= 12; ++blocks) {
    for (const std::size_t steps : {1U, 2U, 5U}) {
      for (const std::size_t settle_every : {0U, 1U, 2U}) {
        const std::string problem = Trial(blocks, steps, settle_every).run();
        ASSERT_TRUE(problem.empty()) << problem;
      }
    }
  }
}

}  // namespace
}  // namespace ultra::zero
