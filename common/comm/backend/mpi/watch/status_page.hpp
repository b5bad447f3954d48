#pragma once
/// @file
/// StatusPage: what a process is doing, for the other processes of its host to read at any time, even
/// when it is stopped or dead.

#include <memory>
#include <string>

namespace ultra::comm::mpi {

/// @brief One page of memory that one process writes and others read. It goes with its processes.
class StatusPage {
 public:
  /// @brief This process's page. Without one (the system has none to give) it says nothing.
  StatusPage();
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;
  ~StatusPage();

  /// @brief The descriptor by which others open it; -1 when there is none.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// @brief Writes what this process does; a long text is cut.
  void say(const std::string& text);

  /// @brief What another process says; empty when it says nothing or cannot be read.
  class Reader {
   public:
    /// @brief Opens the page of a process of this host.
    Reader(int process, int descriptor);
    /// @brief What stands there now.
    [[nodiscard]] std::string text() const;

   private:
    std::shared_ptr<const char[]> memory_;  // null when there is none
  };

 private:
  int descriptor_ = -1;
  char* memory_ = nullptr;
};

}  // namespace ultra::comm::mpi
