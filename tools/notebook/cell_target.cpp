// The source of the targets notebook.NN_name. They are never built: their compile flags and link
// line are what the C++ cells of a chapter are built with (notebook.cmake).
int main() {}
