#pragma once
/// @file
/// What a compiled C++ cell is made of: where its output goes, how it fails, its main function.
///
/// The runner (ultra_notebook/cells/process.py) names a folder in ULTRA_NOTEBOOK_OUTPUT. The cell leaves
/// there what each rank printed (`rank-2.txt`), the rows it emitted (`rows-2.jsonl`) and, in the
/// order in which they happened, its failures (`failures.txt`). Everything is written at once, not
/// at exit: what a rank printed before a crash or a hang is what one wants to see.
///
/// Without that folder (the binary run by hand, in a debugger) all of it goes to the terminal.

#include <cxxabi.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <sstream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "notebook/rows.hpp"

namespace ultra::notebook {

/// @brief Which rank the calling thread is; rank -1: none (a helper thread, the main thread).
struct ThreadRank {
  int rank = -1;
  int world_size = 1;

  /// @brief "rank 2 of 4: " for one of several ranks, else nothing.
  [[nodiscard]] std::string prefix() const {
    if (rank < 0 || world_size < 2) return "";
    return "rank " + std::to_string(rank) + " of " + std::to_string(world_size) + ": ";
  }
};

/// GoogleTest's listener and std::cout's buffer are called without a context, so the rank of a
/// thread has to be found from the thread itself.
inline thread_local ThreadRank this_rank;

/// @brief Writes all of `text`, at once and unbuffered.
inline void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// @brief A file of the output folder, to append to; the terminal when there is no such folder.
class OutputFile {
 public:
  OutputFile(const std::string& name, int terminal) : descriptor_(terminal) {
    if (const char* folder = std::getenv("ULTRA_NOTEBOOK_OUTPUT")) {
      const std::string path = std::string(folder) + "/" + name;
      descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      owned_ = true;
    }
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    if (owned_) ::close(descriptor_);
  }

  void write(std::string_view text) const { write_all(descriptor_, text); }

 private:
  int descriptor_;
  bool owned_ = false;
};

/// @brief Sends what a thread prints to the file of its rank; threads of no rank to the terminal.
class RankBuffer : public std::streambuf {
 public:
  explicit RankBuffer(int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      const std::string name = "rank-" + std::to_string(rank) + ".txt";
      files_.push_back(std::make_unique<OutputFile>(name, STDOUT_FILENO));
    }
  }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::string_view chunk(text, static_cast<std::size_t>(count));
    const int rank = this_rank.rank;
    if (rank < 0) {
      write_all(STDOUT_FILENO, chunk);
    } else {
      files_.at(static_cast<std::size_t>(rank))->write(chunk);
    }
    return count;
  }

  int_type overflow(int_type c) override {
    if (c != traits_type::eof()) {
      const char character = traits_type::to_char_type(c);
      xsputn(&character, 1);
    }
    return traits_type::not_eof(c);
  }

 private:
  std::vector<std::unique_ptr<OutputFile>> files_;
};

/// @brief While it lives, std::cout and std::cerr write through another buffer.
class RedirectedStreams {
 public:
  explicit RedirectedStreams(std::streambuf* buffer)
      : cout_(std::cout.rdbuf(buffer)), cerr_(std::cerr.rdbuf(buffer)) {}
  RedirectedStreams(const RedirectedStreams&) = delete;
  RedirectedStreams& operator=(const RedirectedStreams&) = delete;
  ~RedirectedStreams() {
    std::cout.rdbuf(cout_);
    std::cerr.rdbuf(cerr_);
  }

 private:
  std::streambuf* cout_;
  std::streambuf* cerr_;
};

/// @brief Records a failure: `01_memory.md:88: rank 2 of 4: what happened`.
inline void record_failure(const std::string& where, const std::string& what) {
  OutputFile("failures.txt", 2).write(where + ": " + this_rank.prefix() + what + "\n\x1e");
}

/// @brief Turns failed expectations into failures of the cell.
class FailureListener : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const std::string file = result.file_name() == nullptr ? "cell" : result.file_name();
    record_failure(file + ":" + std::to_string(result.line_number()), result.message());
  }
};

inline void emit(std::initializer_list<Field> fields) {
  std::string row;
  const ThreadRank own = this_rank;
  bool has_rank = own.world_size < 2;
  for (const auto& [name, value] : fields) {
    has_rank = has_rank || name == "rank";
    row += (row.empty() ? "" : ", ") + Value::quoted(name) + ": " + value.json();
  }
  if (!has_rank) row = "\"rank\": " + std::to_string(own.rank) + (row.empty() ? "" : ", ") + row;
  OutputFile("rows-" + std::to_string(own.rank) + ".jsonl", 1).write("{" + row + "}\n");
}

/// @brief "ultra::ShapeError: 3 != 4", for any exception.
inline std::string describe(const std::exception& error) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return std::string(status == 0 ? name.get() : typeid(error).name()) + ": " + error.what();
}

/// @brief Runs the cell's body as one rank: sets its place, and records how it ends.
/// @param where the file and line of the cell, for an exception that leaves it.
/// @param buffer where the rank prints.
template <class World, class Body>
void run_as_rank(World& world, const std::string& where, std::streambuf* buffer, Body& body) {
  this_rank = {world.rank(), world.size()};
  std::ostream out(buffer);
  try {
    body(world, world.rank(), out);
  } catch (const std::exception& error) {
    record_failure(where, describe(error));
    this_rank = {};
    throw;
  }
  this_rank = {};
}

/// @brief The main function of a cell.
/// @param run_all runs a function of a world on every rank: run_ranks of one_rank.hpp or of
///        many_ranks.hpp.
/// @return 0; 1 when an expectation failed or an exception left the cell.
template <class World, class RunAll, class Body>
int run_cell(int world_size, const std::string& where, RunAll run_all, Body body) {
  testing::InitGoogleTest();
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailureListener);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // else a crash loses what was printed before it

  RankBuffer by_rank(world_size);
  const bool many = world_size > 1;
  std::streambuf* const buffer = many ? &by_rank : std::cout.rdbuf();
  const auto redirected = many ? std::make_unique<RedirectedStreams>(buffer) : nullptr;
  try {
    run_all(world_size, [&](World& world) { run_as_rank(world, where, buffer, body); });
  } catch (...) {
    return 1;  // the rank that threw has recorded its failure
  }
  return testing::UnitTest::GetInstance()->Passed() ? 0 : 1;
}

}  // namespace ultra::notebook
