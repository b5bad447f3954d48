#pragma once
/// @file
/// What happened to each byte of shared memory since the block began: who wrote it, and who touched it
/// since the last barrier. Two threads at one byte with no barrier between them, one of them writing,
/// is a race, whichever of them came first here.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ultra::simt::emulator {

/// @brief A thread's access in a race: the one that is made, or the one that was.
struct ShadowMark {
  /// @brief The thread's number in its block.
  std::uint16_t thread = 0;
  /// @brief The site of the access, as Counters numbers them.
  std::uint16_t site = 0;
  /// @brief How often the thread's warp had been synchronised by then; 0 marks nobody.
  std::uint32_t warp_epoch = 0;
};

/// @brief What an access is to the shadow.
enum class ShadowUse : std::uint8_t {
  /// @brief A read.
  kRead,
  /// @brief A write of another value than is there.
  kWrite,
  /// @brief A write of the value that is there already: it harms no other write.
  kRewrite,
  /// @brief An atomic: it harms no other atomic.
  kAtomic,
};

/// @brief Two accesses with no barrier between them.
struct Race {
  /// @brief The earlier one here.
  ShadowMark earlier;
  /// @brief Whether it wrote.
  bool earlier_wrote;
};

/// @brief The moment of the block: barriers of the block and blocks are counted from 1.
struct Moment {
  /// @brief Number of the block.
  std::uint32_t block = 0;
  /// @brief Number of the interval between barriers.
  std::uint32_t interval = 0;
};

/// @brief The shadow of one array of shared memory.
class Shadow {
 public:
  /// @brief A shadow of an array of `bytes` bytes that nobody has touched.
  explicit Shadow(std::size_t bytes);

  /// @brief Whether all these bytes have been written in this block.
  [[nodiscard]] bool is_written(std::size_t offset, std::size_t size, Moment now) const;

  /// @brief Notes a read of one whole word if that is all there is to do: the word was written before
  /// the last barrier and not since. False, and nothing is noted, if there is more to look at.
  bool note_plain_read(std::size_t offset, std::size_t size, const ShadowMark& mark, Moment now) {
    Word& word = words_[offset / 4];
    Cell& cell = word.whole;
    if (size != 4 || offset % 4 != 0 || word.block != now.block || word.written != 0xf ||
        word.split_interval == now.interval) {
      return false;
    }
    if (cell.interval != now.interval) {
      cell.interval = now.interval;
      cell.writer.warp_epoch = 0;
      cell.other_reader.warp_epoch = 0;
      cell.reader = mark;
      return true;
    }
    if (cell.writer.warp_epoch != 0) {
      return false;
    }
    (cell.reader.thread == mark.thread ? cell.reader : cell.other_reader) = mark;
    return true;
  }

  /// @brief Takes these bytes for unwritten: a copy that is on its way will write them.
  void forget(std::size_t offset, std::size_t size);

  /// @brief Takes these bytes for written, with no thought of races.
  void note_written(std::size_t offset, std::size_t size, Moment now);

  /// @brief Notes an access, and returns the earlier one that it races with, if any.
  std::optional<Race> touch(std::size_t offset, std::size_t size, ShadowUse use,
                            const ShadowMark& mark, Moment now);

 private:
  // One word, or one byte of a word whose bytes are touched one by one.
  struct Cell {
    std::uint32_t interval = 0;
    bool only_atomic = false;
    ShadowMark writer = {};
    ShadowMark reader = {};
    ShadowMark other_reader = {};
  };
  struct Word {
    Cell whole;
    std::uint32_t block = 0;           // for which block `written` holds
    std::uint8_t written = 0;          // one bit per byte
    std::uint32_t split_interval = 0;  // the interval in which single bytes were touched
  };

  static std::optional<Race> touch_cell(Cell& cell, ShadowUse use, const ShadowMark& mark,
                                        std::uint32_t interval);
  std::optional<Race> touch_word(std::size_t word, unsigned first_byte, unsigned count,
                                 ShadowUse use, const ShadowMark& mark, std::uint32_t interval);

  std::vector<Word> words_;
  std::vector<Cell> bytes_;  // four per word, from the first single byte on
};

}  // namespace ultra::simt::emulator
