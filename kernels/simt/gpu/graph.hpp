#pragma once
/// @file
/// A CUDA graph, without CUDA's headers.

#include <functional>

#include "kernels/simt/config.hpp"

namespace ultra::simt::gpu {

/// @brief Launches as a graph that the GPU can be given as a whole.
class Graph {
 public:
  /// @brief Records what `launches` queues on the stream that it gets.
  /// @throws SimtError (Fault::kCuda) when something cannot be recorded.
  explicit Graph(const std::function<void(const Queue&)>& launches);
  /// @brief Frees the graph.
  ~Graph();
  /// @brief A graph has one owner.
  Graph(const Graph&) = delete;
  /// @brief A graph has one owner.
  Graph& operator=(const Graph&) = delete;

  /// @brief Queues it.
  /// @throws SimtError (Fault::kCuda)
  void launch(Stream stream) const;

 private:
  void* executable_ = nullptr;  // a cudaGraphExec_t
};

}  // namespace ultra::simt::gpu
