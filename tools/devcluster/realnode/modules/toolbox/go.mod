// The program that holds namespaces, is the sandbox of each pod, and plays workloads in tests.
module podium.dev/realnode/toolbox

go 1.26.0
