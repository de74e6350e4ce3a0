"""Lists, between two commits, every cluster's versions that differ: the git program and PyYAML with its C loader.

Usage: detect.py REPOSITORY OLD NEW
"""

import subprocess
import sys

import yaml


def versions(content):
    found = []
    for document in yaml.load_all(content, Loader=yaml.CSafeLoader):
        found += [(image["name"], image["newTag"]) for image in document.get("images", [])]
        spec = document.get("spec", {})
        found += [(field, spec[field]) for field in ("kubernetesVersion", "eksaVersion") if field in spec]
    return found


def main(repository, old, new):
    git = ["git", "-C", repository]
    listing = subprocess.check_output([*git, "diff-tree", "-r", "-z", "--no-renames", old, new])
    fields = listing.decode().rstrip("\0").split("\0")
    entries = [(path, *head.split()[2:4]) for head, path in zip(fields[::2], fields[1::2])]
    wanted = "".join(f"{before}\n{after}\n" for _, before, after in entries)
    blobs = subprocess.run([*git, "cat-file", "--batch"], input=wanted.encode(), stdout=subprocess.PIPE, check=True).stdout
    position = 0
    lines = []
    for path, *_ in entries:
        pair = []
        for _ in range(2):
            end = blobs.index(b"\n", position)
            header = blobs[position:end].split()
            position = end + 1
            if header[-1] == b"missing":
                pair.append([])
                continue
            size = int(header[2])
            pair.append(versions(blobs[position : position + size]))
            position += size + 1
        before = dict(pair[0])
        cluster = path.split("/")[1]
        for what, version in pair[1]:
            if before.get(what, "-") != version:
                lines.append(f"{cluster} {what} {before.get(what, '-')} {version}\n")
    sys.stdout.write("".join(lines))


main(*sys.argv[1:])
